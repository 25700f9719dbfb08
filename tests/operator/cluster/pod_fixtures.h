#pragma once

#include <array>
#include <utility>

#include "operator/job/job_reader.h"
#include "operator/job/observed.h"
#include "operator/job/training_job.h"

namespace coxswain::test {

inline constexpr const char* kMpiJob = R"(apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: mnist, namespace: team}
spec:
  replicaSpecs: {Worker: {replicas: 2}}
  training: {model: singa-cnn, data: {format: mnist}, epochs: 10}
  volumes:
    data: {persistentVolumeClaim: {claimName: digits, readOnly: true}}
    checkpoints: {persistentVolumeClaim: {claimName: mnist-checkpoints}}
)";

inline constexpr const char* kForeignJob = R"(apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: ddp, namespace: team}
spec:
  replicaSpecs:
    Worker:
      replicas: 2
      template:
        metadata:
          labels: {team: vision}
          annotations: {sidecar.istio.io/inject: "false"}
        spec:
          containers:
          - name: pytorch
            image: registry.example/ddp:1
            command: [python, train.py]
            args: ['--rank=$(PET_NODE_RANK)']
            env: [{name: EPOCHS, value: "90"}]
  volumes: {checkpoints: {persistentVolumeClaim: {claimName: ddp}}}
)";

inline constexpr const char* kSlotsJob = R"(apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: slots, namespace: team}
spec:
  slotsPerWorker: 2
  image: registry.example/trainer:2
  replicaSpecs: {Worker: {replicas: 2}}
  training: {model: mlp, data: {format: mnist}}
  runPolicy: {terminationGracePeriodSeconds: 90}
)";

inline constexpr const char* kSidecarJob = R"(apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: sidecar, namespace: team}
spec:
  launcher: MPI
  slotsPerWorker: auto
  replicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          nodeSelector: {pool: gpu}
          tolerations:
          - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
          - key: node.kubernetes.io/unreachable
            operator: Exists
            effect: NoExecute
            tolerationSeconds: 5
          initContainers:
          - name: fetch
            image: registry.example/fetch:1
            volumeMounts: [{name: data, mountPath: /data}]
          containers:
          - name: log
            image: registry.example/log:1
            volumeMounts:
            - {name: checkpoints, mountPath: /watch, readOnly: true}
            - {name: scratch, mountPath: /scratch}
          - name: trainer
            image: registry.example/horovod:1
            resources: {limits: {nvidia.com/gpu: 2, memory: 16Gi}, requests: {cpu: 500m}}
            volumeMounts: [{name: scratch, mountPath: /dev/shm}]
            securityContext: {capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}
            readinessProbe: {exec: {command: [/bin/true]}}
          volumes: [{name: scratch, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]
  training: {model: mlp, data: {format: mnist}}
  volumes: {data: {emptyDir: {}}, checkpoints: {emptyDir: {}}}
)";

inline constexpr const char* kServersJob = R"(apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: servers, namespace: team}
spec:
  strategy: ParameterServer
  replicaSpecs: {Worker: {replicas: 1}, Server: {replicas: 2}}
  training: {model: mlp, data: {format: mnist}}
  volumes: {data: {emptyDir: {}}, checkpoints: {emptyDir: {}}}
)";

inline constexpr const char* kVolcanoJob = R"(apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: volcano, namespace: team}
spec:
  slotsPerWorker: 2
  replicaSpecs: {Worker: {replicas: 3}}
  training: {model: mlp, data: {format: mnist}}
  runPolicy:
    schedulingPolicy: {gang: Volcano, queue: research, priorityClass: high, minAvailable: 2}
)";

inline constexpr const char* kCoschedulingJob = R"(apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: coscheduling, namespace: team}
spec:
  replicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          schedulerName: gangs
          initContainers: [{name: warm, image: a, resources: {requests: {cpu: "3"}}}]
          containers:
          - {name: trainer, image: b, resources: {requests: {cpu: 250m, memory: 1Gi}}}
          - {name: log, image: c, resources: {limits: {cpu: 100m}}}
  runPolicy:
    schedulingPolicy: {gang: Coscheduling, scheduleTimeoutSeconds: 120}
)";

inline constexpr const char* kKueueJob = R"(apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: kueue, namespace: team}
spec:
  strategy: ParameterServer
  replicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          affinity:
            podAffinity:
              preferredDuringSchedulingIgnoredDuringExecution:
              - weight: 1
                podAffinityTerm: {topologyKey: rack, labelSelector: {matchLabels: {app: cache}}}
          containers: [{name: trainer}]
    Server: {replicas: 1}
  training: {model: mlp, data: {format: mnist}}
  runPolicy:
    schedulingPolicy:
      {gang: Kueue, queue: team-a, priorityClass: high, topologyKey: topology.kubernetes.io/zone}
)";

inline constexpr const char* kElasticJob = R"(apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: elastic, namespace: team}
spec:
  launcher: MPI
  elasticPolicy: {minReplicas: 1, maxReplicas: 8}
  replicaSpecs:
    Worker:
      replicas: 3
      template:
        spec:
          containers: [{name: own, image: "registry.example/own:1", command: [/train]}]
  volumes: {checkpoints: {persistentVolumeClaim: {claimName: elastic}}}
)";

inline constexpr const char* kGpuJob = R"(apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: gpu, namespace: team}
spec:
  slotsPerWorker: auto
  replicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers: [{name: trainer, resources: {limits: {nvidia.com/gpu: 8, memory: 64Gi}}}]
  training: {model: resnet50, data: {format: imagefolder}}
  volumes: {data: {persistentVolumeClaim: {claimName: imagenet}}}
)";

inline constexpr std::array<std::pair<const char*, const char*>, 10> kJobs = {
    {{"mpi", kMpiJob},
     {"env_foreign_image", kForeignJob},
     {"slots", kSlotsJob},
     {"sidecar_and_init_container", kSidecarJob},
     {"parameter_server", kServersJob},
     {"volcano", kVolcanoJob},
     {"coscheduling", kCoschedulingJob},
     {"kueue", kKueueJob},
     {"elastic_own_command", kElasticJob},
     {"gpu", kGpuJob}}};

// The job as it is once its gang is recorded.
inline job::TrainingJob started(job::TrainingJob job, int attempt = 1) {
  job.metadata.uid = "5f0c3a9e-9d3b-4a55-8a4f-0d6f1a2b3c4d";
  job.status.attempt = attempt;
  job.status.keys_secret = job.metadata.name + "-keys-5f0c3a9e";
  job.status.workers = job.spec.worker.replicas;
  job.status.image = job::image_of(job.spec, {});
  return job;
}

inline job::TrainingJob job_of(const char* text) {
  return started(job::read_job(text, "job.yaml"));
}

// The MPI job with a template whose pod is `spec`.
inline job::TrainingJob with_pod(const char* spec, bool training = true) {
  job::TrainingJob job = job_of(kMpiJob);
  job.spec.worker.pod_template = {{"spec", job::Json::parse(spec)}};
  if (!training) job.spec.training.reset();
  return job;
}

}  // namespace coxswain::test
