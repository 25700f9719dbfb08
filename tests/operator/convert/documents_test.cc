#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "operator/convert/convert.h"
#include "operator/job/job_reader.h"
#include "operator/job/validation.h"
#include "tests/support/test_flags.h"

namespace coxswain::test {

namespace {

using convert::Converted;

Converted converted_document(const std::string& text, const std::string& image = "") {
  return convert::from_documents(job::read_documents(text, "job.yaml"),
                                 {.name = "", .image = image, .read_file = {}});
}

std::string shown_document(const Converted& result) {
  std::string text;
  for (const convert::Note& note : result.notes) text += "# " + to_text(note) + "\n";
  for (const job::Problem& problem : result.problems) text += "# " + to_text(problem) + "\n";
  if (!convert::is_whole(result)) return text + "# not converted\n";
  return text + "---\n" + convert::to_yaml(result);
}

struct DocumentCase {
  const char* name;
  std::string text;
};

constexpr const char* kPi = R"(apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: pi, labels: {team: a}}
spec:
  slotsPerWorker: 1
  runPolicy: {cleanPodPolicy: Running, ttlSecondsAfterFinished: 60, backoffLimit: 0}
  sshAuthMountPath: /home/mpiuser/.ssh
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
          - name: mpi-launcher
            image: mpioperator/mpi-pi:openmpi
            securityContext: {runAsUser: 1000}
            command: [mpirun]
            args: [-n, "2", /home/mpiuser/pi]
            resources: {limits: {cpu: 1, memory: 1Gi}}
    Worker:
      replicas: 2
      restartPolicy: Never
      template:
        spec:
          containers:
          - name: mpi-worker
            image: mpioperator/mpi-pi:openmpi
            securityContext: {runAsUser: 1000}
            command: [/usr/sbin/sshd]
            args: [-De, -f, /home/mpiuser/.sshd_config]
            resources: {limits: {cpu: 1, memory: 1Gi}}
)";

constexpr const char* kHorovod = R"(apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {name: tensorflow-mnist, namespace: kubeflow}
spec:
  slotsPerWorker: 2
  cleanPodPolicy: All
  runPolicy: {schedulingPolicy: {minAvailable: 3, queue: training}}
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
          - image: horovod/horovod:0.20.0
            name: mpi
            command: [mpirun]
            args: [-np, "2", --allow-run-as-root, -bind-to, none, -map-by, slot,
                   -x, LD_LIBRARY_PATH, -x, "NCCL_DEBUG=INFO", -mca, pml, ob1, -mca, btl, tcp,
                   python, /examples/tensorflow2_mnist.py]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - {image: "horovod/horovod:0.20.0", name: mpi, resources: {limits: {cpu: 2, memory: 4Gi}}}
)";

constexpr const char* kMpirunOptions = R"(
                   -x, LD_LIBRARY_PATH, -x, "NCCL_DEBUG=INFO", -mca, pml, ob1, -mca, btl, tcp,)";

constexpr const char* kPyTorch = R"(apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pytorch-simple}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - {name: pytorch, image: "a:1", command: [python3, mnist.py, --epochs=1]}
    Worker:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - {name: pytorch, image: "b:1", command: [python3, mnist.py, --epochs=1]}
)";

constexpr const char* kElastic = R"(apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: elastic}
spec:
  nprocPerNode: "2"
  elasticPolicy:
    {rdzvBackend: c10d, minReplicas: 1, maxReplicas: 3, maxRestarts: 100,
     metrics: [{type: Resource}]}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: ExitCode
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: pytorch
            image: imagenet:0.1
            env: [{name: LOGLEVEL, value: DEBUG}, {name: MASTER_PORT, value: "1"}]
            command: [python, -m, torch.distributed.run, /workspace/imagenet.py, --epochs=1]
          - {name: sidecar, image: "s:1"}
)";

constexpr const char* kTensorFlow = R"(apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: dist-mnist}
spec:
  tfReplicaSpecs:
    PS:
      replicas: 2
      restartPolicy: Never
      template: {spec: {containers: [{name: tensorflow, image: "tf:1"}]}}
    Worker:
      replicas: 4
      restartPolicy: Never
      template: {spec: {containers: [{name: tensorflow, image: "tf:1"}]}}
)";

constexpr const char* kChief = R"(apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: multi-worker}
spec:
  successPolicy: AllWorkers
  runPolicy: {suspend: true, activeDeadlineSeconds: 600}
  tfReplicaSpecs:
    Chief:
      template: {spec: {containers: [{name: tensorflow, image: "tf:1", command: [python, a.py]}]}}
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: tensorflow, image: "tf:1", command: [python, a.py]}]}}
)";

constexpr const char* kMxnet = R"(apiVersion: kubeflow.org/v1
kind: MXJob
metadata: {name: mxnet-job}
spec:
  jobMode: MXTrain
  mxReplicaSpecs:
    Scheduler:
      replicas: 1
      restartPolicy: Never
      template: {spec: {containers: [{name: mxnet, image: "mx:1"}]}}
    Server:
      replicas: 1
      restartPolicy: Never
      template: {spec: {containers: [{name: mxnet, image: "mx:1"}]}}
    Worker:
      replicas: 2
      restartPolicy: Never
      template:
        spec:
          containers:
          - name: mxnet
            image: mx:1
            command: [python]
            args: [/mxnet/train_mnist.py, --num-epochs, "10", --kv-store, dist_device_sync]
)";

constexpr const char* kRuntime = R"(apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch-distributed, labels: {trainer.kubeflow.org/framework: torch}}
spec:
  mlPolicy: {numNodes: 1, torch: {numProcPerNode: 2}}
  podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 120}}
  template:
    spec:
      replicatedJobs:
      - name: dataset-initializer
        template: {spec: {template: {spec: {containers: [{name: dataset-initializer, image: i}]}}}}
      - name: node
        template:
          spec:
            template:
              spec:
                containers:
                - {name: node, image: "pytorch:2.7", command: [torchrun, train.py]}
---
)";

constexpr const char* kTrainJob = R"(apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: nodes}
spec:
  runtimeRef: {name: torch-distributed}
  suspend: true
  trainer:
    numNodes: 3
    image: ddp:1
    command: [python3, train.py]
    env: [{name: LOGLEVEL, value: INFO}]
    resourcesPerNode: {requests: {cpu: "2", memory: 4Gi}}
)";

constexpr const char* kVolcanoMxnet = R"(apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: mxnet-job}
spec:
  minAvailable: 5
  schedulerName: volcano
  queue: default
  policies: [{event: PodEvicted, action: RestartJob}]
  plugins: {svc: []}
  tasks:
  - replicas: 2
    name: worker
    template:
      spec:
        restartPolicy: OnFailure
        containers:
        - name: mxnet
          image: mx:1
          args: [--kv-store=dist_sync]
          env: [{name: DMLC_ROLE, value: worker}, {name: A, value: b}]
  - replicas: 2
    name: server
    template:
      spec:
        restartPolicy: OnFailure
        containers: [{name: mxnet, image: "mx:1", env: [{name: DMLC_ROLE, value: server}]}]
  - replicas: 1
    name: scheduler
    template:
      spec:
        restartPolicy: OnFailure
        containers: [{name: mxnet, image: "mx:1", env: [{name: DMLC_ROLE, value: scheduler}]}]
)";

constexpr const char* kVolcanoMpi = R"(apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: hello}
spec:
  minAvailable: 3
  maxRetry: 2
  plugins: {ssh: [], svc: [], mpi: ["--master=master", "--worker=worker"]}
  tasks:
  - name: master
    replicas: 1
    policies: [{event: TaskCompleted, action: CompleteJob}]
    template:
      spec:
        containers:
        - {name: master, image: "hello:1", command: [sh, -c, "mpiexec -np 2 ./hello"]}
  - name: worker
    replicas: 2
    template: {spec: {containers: [{name: worker, image: "hello:1"}]}}
)";

std::string changed(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

std::vector<DocumentCase> jobs() {
  const std::string elastic = changed(
      changed(kHorovod, "command: [mpirun]", "command: [horovodrun]"),
      "args: [-np, \"2\", --allow-run-as-root, -bind-to, none, -map-by, slot,",
      "args: [-np, \"4\", --min-np, \"2\", --max-np, \"8\", --host-discovery-script, /etc/mpi/x,");
  return {{"mpi_job_pi", kPi},
          {"mpi_job_elastic", changed(elastic, kMpirunOptions, "")},
          {"mpi_job_v1", kHorovod},
          {"pytorch_job", kPyTorch},
          {"pytorch_job_elastic", kElastic},
          {"tf_job_servers", kTensorFlow},
          {"tf_job_chief", kChief},
          {"mx_job", kMxnet},
          {"train_job", kTrainJob},
          {"train_job_with_runtime", std::string(kRuntime) + kTrainJob},
          {"volcano_mxnet", kVolcanoMxnet},
          {"volcano_mpi", kVolcanoMpi}};
}

std::vector<DocumentCase> refused_documents() {
  return {
      {"unknown_kind", "apiVersion: kubeflow.org/v1\nkind: JAXJob\nmetadata: {name: a}\n"},
      {"newer_version", changed(kPi, "v2beta1", "v3")},
      {"is_ours", "apiVersion: coxswain.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: a}\n"},
      {"no_documents", "# nothing\n"},
      {"no_job", "apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\nmetadata: {name: a}\n"},
      {"a_list_of_jobs", "- a\n"},
      {"two_foreign_jobs", std::string(kPi) + "---\n" + kPyTorch},
      {"unknown_foreign_field", changed(kPi, "sshAuthMountPath: ", "sshPath: ")},
      {"intel_mpi",
       changed(kPi, "slotsPerWorker: 1", "slotsPerWorker: 1\n  mpiImplementation: Intel")},
      {"launcher_script",
       changed(kPi, "command: [mpirun]",
               "command: [sh, -c, 'HOSTS=`cat /etc/h`; mkdir -p /run/sshd; mpirun -np 2 x']")},
      {"launcher_without_command", changed(changed(kPi, "command: [mpirun]\n", "workingDir: /\n"),
                                           "args: [-n, \"2\", /home/mpiuser/pi]", "tty: false")},
      {"no_worker", changed(kPi, "    Worker:\n", "    Other:\n")},
      {"wrong_type", changed(kPi, "backoffLimit: 0", "backoffLimit: none")},
      {"initializer",
       changed(kTrainJob, "suspend: true", "initializer: {dataset: {storageUri: hf://a}}")},
      {"volcano_task_twice", changed(kVolcanoMpi, "- name: master", "- name: worker")},
      {"volcano_tasks", changed(kVolcanoMpi, "- name: master", "- name: driver")},
      {"volcano_files",
       changed(
           changed(kVolcanoMxnet, "args: [--kv-store=dist_sync]",
                   "command: [sh, -c, 'python train.py --hosts `cat /etc/volcano/worker.host`']"),
           "policies: [{event: PodEvicted, action: RestartJob}]", "maxRetry: 1")},
      {"evaluator", changed(kChief, "Chief:", "Evaluator:")},
  };
}

void expect_golden_jobs(const std::vector<DocumentCase>& cases, bool whole) {
  for (const DocumentCase& test : cases) {
    const Converted result = converted_document(test.text);
    EXPECT_EQ(convert::is_whole(result), whole) << test.name << "\n" << shown_document(result);
    expect_golden(std::string("convert/") + test.name + ".txt",
                  test.text + "====\n" + shown_document(result));
  }
}

}  // namespace

TEST(ConvertDocuments, makes_jobs_of_others) { expect_golden_jobs(jobs(), true); }
TEST(ConvertDocuments, refuses_what_has_no_place) {
  expect_golden_jobs(refused_documents(), false);
}

TEST(ConvertDocuments, prints_jobs_that_can_start) {
  for (const DocumentCase& test : jobs()) {
    const Converted result = converted_document(test.text);
    const job::TrainingJob read = job::read_job(convert::to_yaml(result), "job.yaml");
    EXPECT_EQ(job::validate(read, {}), std::vector<job::Problem>{}) << test.name;
    EXPECT_EQ(read.spec, result.job.spec) << test.name;
  }
}

TEST(ConvertDocuments, takes_the_image_that_is_given) {
  const Converted result = converted_document(kPi, "registry.example.org/pi:2");
  EXPECT_NE(convert::to_yaml(result).find("image: registry.example.org/pi:2"), std::string::npos);
}

}  // namespace coxswain::test
