#include "operator/job/validation.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "operator/job/job_reader.h"
#include "operator/job/plan.h"
#include "operator/job/strategy_names.h"
#include "tests/support/test_flags.h"
#include "trainer/contract/error.h"

namespace coxswain::test {

namespace {

constexpr const char* kHead = "apiVersion: coxswain.dev/v1alpha1\nkind: TrainingJob\n";
constexpr const char* kMeta = "metadata: {name: mnist}\n";
constexpr const char* kTraining = "  training: {model: mlp, data: {format: mnist}}\n";
constexpr const char* kWorkers = "  replicaSpecs: {Worker: {replicas: 2}}\n";

// A file, and what is answered: tests/golden/validate/<name>.txt holds both.
struct Case {
  std::string name;
  std::string text;
  std::string file = "job.yaml";
};

std::string spec(const std::string& rest) {
  return std::string(kHead) + kMeta + "spec:\n" + kWorkers + kTraining + rest;
}

std::string with_replicas(const std::string& replicas) {
  return std::string(kHead) + kMeta + "spec:\n  replicaSpecs: {Worker: {replicas: " + replicas +
         "}}\n" + kTraining;
}

std::string with_name(const std::string& name) {
  return std::string(kHead) + "metadata: {name: " + name + "}\nspec:\n" + kWorkers + kTraining;
}

std::string with_training(const std::string& training) {
  return std::string(kHead) + kMeta + "spec:\n" + kWorkers + "  training:\n" + training;
}

// `pod` stands within spec.replicaSpecs.Worker.template.spec, indented by 10.
std::string with_pod(const std::string& pod) {
  return std::string(kHead) + kMeta +
         "spec:\n  replicaSpecs:\n    Worker:\n      replicas: 2\n      template:\n        "
         "spec:\n" +
         pod + kTraining;
}

std::string with_container(const std::string& fields) {
  return with_pod("          containers:\n          - {name: trainer, " + fields + "}\n");
}

constexpr const char* kClaim = "apiVersion: v1\nkind: PersistentVolumeClaim\n---\n";

std::vector<Case> documents() {
  std::string nested = "a: ";
  for (int i = 0; i < 100; ++i) nested += "[";
  return {
      {"empty", ""},
      {"spec_missing", std::string(kHead) + kMeta},
      {"spec_null", std::string(kHead) + kMeta + "spec:\n"},
      {"spec_a_list", std::string(kHead) + kMeta + "spec: [1]\n"},
      {"a_list", "- 1\n- 2\n"},
      {"tab", std::string(kHead) + "metadata:\n\tname: x\n"},
      {"duplicate_key", spec("  image: a\n  image: b\n")},
      {"two_jobs", kClaim + spec("") + "---\n" + spec("")},
      {"no_job_among_documents", std::string(kClaim) + "kind: TrainingJobs\n"},
      {"unknown_field", std::string(kHead) + kMeta + "spec:\n" + kWorkers + "  trainning: {}\n"},
      {"unknown_root", spec("") + "speck: 1\n"},
      {"unknown_kind", "apiVersion: coxswain.dev/v1alpha1\nkind: TrainingJobs\n" +
                           std::string(kMeta) + "spec:\n" + kWorkers + kTraining},
      {"unknown_version", "apiVersion: coxswain.dev/v1\nkind: TrainingJob\n" + std::string(kMeta) +
                              "spec:\n" + kWorkers + kTraining},
      {"nested_too_deep", nested},
      {"too_large", "# " + std::string(std::size_t{1} << 20, 'x')},
      {"not_utf8", std::string("a: \xff\xfe\n")},
      {"utf16", std::string("\xff\xfe", 2) + std::string("a\0:\0", 4)},
      {"alias_within_itself", "a: &x [*x]\n"},
      {"json_trailing_comma", "{\"apiVersion\": \"coxswain.dev/v1alpha1\",\n \"kind\": 1,}",
       "job.json"},
      {"json_nan", "{\"a\": NaN}", "job.json"},
  };
}

std::vector<Case> values() {
  return {
      {"name_missing", std::string(kHead) + "metadata: {}\nspec:\n" + kWorkers + kTraining},
      {"name_capitals", with_name("MNIST")},
      {"name_ends_with_dash", with_name("mnist-")},
      {"name_too_long", with_name(std::string(52, 'a'))},
      {"namespace_capitals", with_name("mnist, namespace: Lab_1")},
      {"replicas_missing",
       std::string(kHead) + kMeta + "spec:\n  replicaSpecs: {Worker: {}}\n" + kTraining},
      {"worker_missing", std::string(kHead) + kMeta + "spec:\n  replicaSpecs: {}\n" + kTraining},
      {"replicas_negative", with_replicas("-1")},
      {"replicas_zero", with_replicas("0")},
      {"replicas_above", with_replicas("4097")},
      {"replicas_a_million", with_replicas("1000000")},
      {"replicas_text", with_replicas("\"2\"")},
      {"replicas_huge", with_replicas("9223372036854775808")},
      {"replicas_beyond_64_bits", with_replicas("99999999999999999999999999")},
      {"replicas_true", with_replicas("true")},
      {"replicas_fraction", with_replicas("2.5")},
      {"slots_word", spec("  slotsPerWorker: many\n")},
      {"slots_zero", spec("  slotsPerWorker: 0\n")},
      {"strategy_unknown", spec("  strategy: ring-allreduce\n")},
      {"strategy_of_tensorflow", spec("  strategy: tf.distribute.ParameterServerStrategy\n")},
      {"strategy_of_a_tpu", spec("  strategy: TPUStrategy\n")},
      {"strategy_of_mxnet", spec("  strategy: dist_sync\n")},
      {"servers_by_mpirun", spec("  strategy: ParameterServer\n  launcher: MPI\n")},
      {"servers_too_many", std::string(kHead) + kMeta +
                               "spec:\n  strategy: ParameterServer\n  replicaSpecs: {Worker: "
                               "{replicas: 2}, Server: {replicas: 1025}}\n" +
                               kTraining},
      {"servers_too_many_unasked", std::string(kHead) + kMeta +
                                       "spec:\n  strategy: ParameterServer\n  replicaSpecs: "
                                       "{Worker: {replicas: 1025}}\n" +
                                       kTraining},
      {"server_without_strategy", std::string(kHead) + kMeta +
                                      "spec:\n  replicaSpecs: {Worker: {replicas: 2}, Server: "
                                      "{replicas: 1}}\n" +
                                      kTraining},
      {"launcher_mpi_without_command", std::string(kHead) + kMeta + "spec:\n  launcher: MPI\n" +
                                           "  replicaSpecs: {Worker: {replicas: 2, template: "
                                           "{spec: {containers: [{name: a, image: b}]}}}}\n"},
      {"launcher_mpi_of_mpirun",
       std::string(kHead) + kMeta + "spec:\n  launcher: MPI\n" +
           "  replicaSpecs: {Worker: {replicas: 2, template: {spec: {containers:\n" +
           "    [{name: a, image: b, command: [/usr/bin/mpirun, -np, '4', train]}]}}}}\n"},
      {"launcher_mpi_of_torchrun",
       std::string(kHead) + kMeta + "spec:\n  launcher: MPI\n" +
           "  replicaSpecs: {Worker: {replicas: 2, template: {spec: {containers:\n" +
           "    [{name: a, image: b, command: [torchrun, train.py]}]}}}}\n"},
      {"rendezvous_without_end",
       std::string(kHead) + kMeta + "spec:\n  strategy: ParameterServer\n" +
           "  rendezvous: [TensorFlow]\n" +
           "  replicaSpecs:\n    Worker: &pod {replicas: 2, template: {spec: {containers:\n" +
           "      [{name: a, image: b, command: [python3, train.py]}]}}}\n    Server: *pod\n"},
      {"nothing_to_run", std::string(kHead) + kMeta + "spec:\n" + kWorkers},
      {"image_malformed", spec("  image: \":latest:\"\n")},
      {"image_newline", spec("  image: \"a\\nb\"\n")},
      {"backoff_limit_too_large", spec("  runPolicy: {backoffLimit: 2147483648}\n")},
      {"backoff_limit_negative", spec("  runPolicy: {backoffLimit: -1}\n")},
      {"active_deadline_zero", spec("  runPolicy: {activeDeadlineSeconds: 0}\n")},
      {"ttl_text", spec("  runPolicy: {ttlSecondsAfterFinished: \"1h\"}\n")},
      {"clean_pod_policy_unknown", spec("  runPolicy: {cleanPodPolicy: Everything}\n")},
      {"suspend_text", spec("  runPolicy: {suspend: \"yes\"}\n")},
      {"success_policy_unknown", spec("  successPolicy: Launcher\n")},
      {"min_above_replicas", spec("  elasticPolicy: {minReplicas: 3}\n")},
      {"max_below_replicas", spec("  elasticPolicy: {maxReplicas: 1}\n")},
      {"checkpoint_interval_text", spec("  checkpoint: {everySeconds: abc}\n")},
      {"checkpoint_keep_zero", spec("  checkpoint: {keep: 0}\n")},
      {"checkpoint_keep_too_many", spec("  checkpoint: {keep: 10001}\n")},
      {"rule_without_action", spec("  failurePolicy: {rules: [{onExitCodes: [1]}]}\n")},
      {"rule_bad_codes",
       spec("  failurePolicy: {rules: [{action: Fail, onExitCodes: [0, 256]}]}\n")},
      {"rule_bad_role", spec("  failurePolicy: {rules: [{action: Fail, onRoles: [Launcher]}]}\n")},
      {"rendezvous_unknown", spec("  rendezvous: [JAX]\n")},
      {"volume_host_path", spec("  volumes: {data: {hostPath: {path: /}}}\n")},
      {"volume_without_claim", spec("  volumes: {checkpoints: {persistentVolumeClaim: {}}}\n")},
      {"volume_two_sources", spec("  volumes: {data: {emptyDir: {}, secret: {secretName: x}}}\n")},
      {"volume_of_another_namespace",
       spec("  volumes: {data: {ephemeral: {volumeClaimTemplate: {spec: {dataSourceRef: "
            "{namespace: other}}}}}}\n")},
      {"training_unknown_key",
       with_training("    model: mlp\n    data: {format: mnist}\n    epoch: 3\n")},
      {"training_bad_value", with_training("    model: mlp\n    data: {format: mnist}\n"
                                           "    batchSize: lots\n")},
      {"checkpoint_without_volume", spec("  checkpoint: {everySteps: 5}\n")},
      {"checkpoint_without_training",
       std::string(kHead) + kMeta +
           "spec:\n  checkpoint: {keep: 5}\n  replicaSpecs: {Worker: {replicas: 2, template: "
           "{spec: {containers: [{name: a, image: b}]}}}}\n"},
      {"training_mpi_without_mpirun", with_training("    model: mlp\n    data: {format: mnist}\n"
                                                    "    communication: {backend: mpi}\n") +
                                          "  launcher: Env\n"},
      {"training_tcp_under_mpirun", with_training("    model: mlp\n    data: {format: mnist}\n"
                                                  "    communication: {backend: tcp}\n")},
      {"training_compression_without_servers",
       with_training("    model: mlp\n    data: {format: mnist}\n"
                     "    communication: {compression: 2bit}\n")},
      {"training_partial_with_servers", with_training("    model: mlp\n    data: {format: mnist}\n"
                                                      "    communication: {partial: 2}\n") +
                                            "  strategy: ParameterServer\n"},
      {"training_lamb_with_servers", with_training("    model: mlp\n    data: {format: mnist}\n"
                                                   "    optimizer: {name: lamb}\n") +
                                         "  strategy: ParameterServer\n"},
      {"training_average_with_servers", with_training("    model: mlp\n    data: {format: mnist}\n"
                                                      "    ema: {decay: 0.9}\n") +
                                            "  strategy: ParameterServer\n"},
      {"training_joined_norms_with_servers",
       with_training("    model: mlp\n    data: {format: mnist}\n"
                     "    batchNorm: sync\n") +
           "  strategy: ParameterServer\n"},
      {"training_servers_and_gpus", with_training("    model: mlp\n    data: {format: mnist}\n"
                                                  "    device: cuda\n") +
                                        "  strategy: ParameterServer\n"},
      {"training_servers_without_strategy",
       with_training("    model: mlp\n    data: {format: mnist}\n"
                     "    parameterServer: {mode: ssp, staleness: 2}\n")},
      {"training_kv_store_of_another_strategy",
       with_training("    model: mlp\n    data: {format: mnist}\n    kvStore: dist_sync\n")},
      {"training_one_device_for_two", with_training("    model: mlp\n    data: {format: mnist}\n"
                                                    "    kvStore: OneDeviceStrategy\n")},
      {"training_of_a_tpu",
       with_training("    model: mlp\n    data: {format: mnist}\n    kvStore: TPUStrategy\n")},
      {"training_not_in_this_version",
       with_training(
           "    model: mlp\n    data: {format: mnist}\n    communication: {backend: nccl}\n")},
      {"training_too_few_shards",
       std::string(kHead) + kMeta +
           "spec:\n  replicaSpecs: {Worker: {replicas: 9}}\n  training: {model: mlp, data: "
           "{format: "
           "mnist}, batchSemantics: global, batchSize: 64, reproducible: anyWorldSize}\n"},
      {"scheduling_queue_of_coscheduling",
       spec("  runPolicy: {schedulingPolicy: {gang: Coscheduling, queue: q}}\n")},
      {"scheduling_timeout_of_volcano",
       spec("  runPolicy: {schedulingPolicy: {gang: Volcano, scheduleTimeoutSeconds: 9}}\n")},
      {"scheduling_without_gang",
       spec("  runPolicy: {schedulingPolicy: {queue: q, minAvailable: 1, minResources: {cpu: 1},\n"
            "    scheduleTimeoutSeconds: 9}}\n")},
      {"scheduling_kueue_without_queue",
       spec("  runPolicy: {schedulingPolicy: {gang: Kueue, minAvailable: 1}}\n"
            "  elasticPolicy: {degradedStartAfterSeconds: 60}\n")},
      {"scheduling_more_than_the_gang",
       spec("  runPolicy: {schedulingPolicy: {gang: Volcano, minAvailable: 3}}\n")},
      {"rendezvous_of_env", spec("  rendezvous: [PyTorch, TensorFlow, Horovod]\n")},
      {"rendezvous_of_mpi", spec("  launcher: Env\n  rendezvous: [PyTorch, Horovod]\n")},
      {"rendezvous_of_servers", spec("  rendezvous: [MXNet]\n  launcher: Env\n")},
      {"several_problems",
       spec("  successPolicy: x\n  runPolicy: {backoffLimit: -1}\n  imagee: y\n")},
  };
}

std::vector<Case> templates() {
  return {
      {"pod_without_containers", with_pod("          containers: []\n")},
      {"pod_without_spec", std::string(kHead) + kMeta +
                               "spec:\n  replicaSpecs: {Worker: {replicas: 2, template: {}}}\n" +
                               kTraining},
      {"pod_same_names", with_pod("          containers: [{name: trainer}, {name: trainer, image: "
                                  "a}]\n")},
      {"pod_no_trainer",
       with_pod("          containers: [{name: a, image: a}, {name: b, image: b}]\n")},
      {"pod_restart_policy",
       with_pod("          restartPolicy: Always\n          containers: [{name: trainer}]\n")},
      {"pod_host_network",
       with_pod("          hostNetwork: true\n          containers: [{name: trainer}]\n")},
      {"pod_host_path", with_pod("          containers: [{name: trainer}]\n          volumes: "
                                 "[{name: x, hostPath: {path: /}}]\n")},
      {"pod_node_selector_number",
       with_pod("          nodeSelector: {disk: 3}\n          containers: [{name: trainer}]\n")},
      {"pod_own_names_and_grace", with_pod("          hostname: a\n          subdomain: b\n"
                                           "          terminationGracePeriodSeconds: 30\n"
                                           "          containers: [{name: trainer}]\n")},
      {"pod_toleration_operator", with_pod("          tolerations: [{operator: Like}]\n          "
                                           "containers: [{name: trainer}]\n")},
      {"pod_affinity_namespace",
       with_pod(
           "          affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
           "[{topologyKey: zone, namespaces: [kube-system]}]}}\n          containers: [{name: "
           "trainer}]\n")},
      {"container_command_text", with_container("command: python train.py")},
      {"container_command_and_training", with_container("command: [python], args: [train.py]")},
      {"container_ld_preload", with_container("env: [{name: LD_PRELOAD, value: x}]")},
      {"container_nccl_comm_id", with_container("env: [{name: NCCL_COMM_ID, value: x}]")},
      {"container_our_environment",
       with_container("env: [{name: COXSWAIN_ATTEMPT, value: \"0\"}]")},
      {"container_env_name", with_container("env: [{name: \"A=B\", value: x}]")},
      {"container_env_of_another_namespace",
       with_container("envFrom: [{secretRef: {name: other/secret}}], env: [{name: A, valueFrom: "
                      "{configMapKeyRef: {name: Other, key: a}}}]")},
      {"container_env_too_large",
       with_container("env: [{name: A, value: " + std::string(200000, 'x') + "}]")},
      {"container_cpu_quantity", with_container("resources: {limits: {cpu: 1 core}}")},
      {"container_memory_out_of_range",
       with_container("resources: {limits: {memory: 1e999999999Gi}}")},
      {"container_limit_below_request",
       with_container("resources: {requests: {memory: 2Gi}, limits: {memory: 512Mi}}")},
      {"container_port", with_container("ports: [{containerPort: 70000}, {containerPort: http}]")},
      {"container_host_port", with_container("ports: [{containerPort: 80, hostPort: 80}]")},
      {"container_mount", with_container("volumeMounts: [{name: nothing, mountPath: /x}]")},
      {"container_privileged", with_container("securityContext: {privileged: true}")},
      {"container_capability",
       with_container("securityContext: {capabilities: {add: [SYS_ADMIN]}}")},
      {"container_root", with_container("securityContext: {runAsUser: 0}")},
      {"container_seccomp",
       with_container("securityContext: {seccompProfile: {type: Unconfined}}")},
  };
}

std::string answer(const Case& test) {
  try {
    const job::TrainingJob job = job::read_job(std::string_view(test.text), test.file);
    std::string text;
    for (const job::Problem& problem : job::validate(job, {})) text += to_text(problem) + "\n";
    return text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return std::string(error.what()) + "\n";
  }
}

void expect_golden_answers(const std::vector<Case>& cases) {
  for (const Case& test : cases) {
    const std::string text = answer(test);
    EXPECT_FALSE(text.empty()) << test.name << " was accepted";
    std::string line;
    for (std::stringstream lines(text); std::getline(lines, line);)
      EXPECT_LE(line.size(), 400u) << test.name;
    const bool shown = test.text.size() < 4000 &&
                       test.text.find_first_of(std::string("\xff\0", 2)) == std::string::npos;
    expect_golden("validate/" + test.name + ".txt",
                  (shown ? test.text + "\n----\n" : std::string("----\n")) + text);
  }
}

}  // namespace

TEST(Validation, refuses_what_is_no_document) { expect_golden_answers(documents()); }
TEST(Validation, refuses_wrong_values) { expect_golden_answers(values()); }
TEST(Validation, refuses_wrong_templates) { expect_golden_answers(templates()); }

TEST(Validation, accepts_more_where_the_installation_does) {
  const std::string text = with_pod(
      "          hostNetwork: true\n          containers: [{name: trainer, securityContext: "
      "{privileged: true}}]\n          volumes: [{name: x, hostPath: {path: /}}]\n");
  const job::TrainingJob job = job::read_job(std::string_view(text), "job.yaml");
  EXPECT_EQ(job::validate(job, {}).size(), 3u);
  job::Installation open;
  open.pod_security = job::PodSecurity::kPrivileged;
  EXPECT_EQ(job::validate(job, open), std::vector<job::Problem>{});
}

// Each name of others has one answer, and it is the same wherever it is written.
TEST(Validation, says_what_to_write_for_names_of_others) {
  for (const job::StrategyName& one : job::kStrategyNames) {
    const std::string text = spec("  strategy: " + std::string(one.name) + "\n");
    const job::TrainingJob job = job::read_job(std::string_view(text), "job.yaml");
    ASSERT_EQ(job.problems.size(), 1u) << one.name;
    EXPECT_NE(job.problems.front().message.find(": write " + std::string(one.write)),
              std::string::npos)
        << one.name;
    const auto store = value_of<KvStore>(one.name);
    if (!store || !one.strategy) continue;
    EXPECT_EQ(has_servers(*store), *one.strategy == job::Strategy::kParameterServer) << one.name;
  }
}

TEST(Validation, accepts_training_under_env_on_one_rank) {
  const std::string text = std::string(kHead) + kMeta +
                           "spec:\n  launcher: Env\n  replicaSpecs: {Worker: {replicas: 1}}\n" +
                           kTraining;
  const job::TrainingJob job = job::read_job(std::string_view(text), "job.yaml");
  EXPECT_EQ(job::validate(job, {}), std::vector<job::Problem>{});
}

// Its label may change, and nobody tells.
TEST(Validation, comes_back_to_a_job_that_another_level_would_let_start) {
  const auto requeue = [](const char* pod) -> std::optional<job::Seconds> {
    job::TrainingJob job = job::read_job(std::string_view(with_pod(pod)), "job.yaml");
    job.status = job::plan(job, {}).status;
    return job::plan(job, {}).requeue_after;
  };
  EXPECT_EQ(requeue("          hostNetwork: true\n          containers: [{name: trainer}]\n"),
            job::Seconds(60));
  EXPECT_EQ(requeue("          hostNetwork: true\n          containers: []\n"), std::nullopt);
}

TEST(Validation, accepts_a_full_template) {
  const std::string text = with_pod(
      "          restartPolicy: Never\n"
      "          nodeSelector: {disk: ssd}\n"
      "          tolerations: [{key: a, operator: Exists}]\n"
      "          volumes: [{name: x, emptyDir: {}}]\n"
      "          containers:\n"
      "          - name: trainer\n"
      "            env: [{name: OMP_NUM_THREADS, value: \"2\"},\n"
      "                  {name: B, valueFrom: {secretKeyRef: {name: a-1.b, key: c}}}]\n"
      "            ports: [{containerPort: 8080}]\n"
      "            volumeMounts: [{name: x, mountPath: /x}]\n"
      "            resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}\n"
      "            securityContext: {runAsUser: 10001, capabilities: {drop: [ALL]}}\n"
      "          - {name: sidecar, image: \"registry.example:5000/a/b:1@sha256:0123\"}\n");
  const job::TrainingJob job = job::read_job(std::string_view(text), "job.yaml");
  EXPECT_EQ(job::validate(job, {}), std::vector<job::Problem>{});
}

}  // namespace coxswain::test
