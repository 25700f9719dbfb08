#include "operator/job/validation.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/job/job_reader.h"
#include "operator/job/roles.h"
#include "operator/job/words.h"
#include "operator/job/worker_spec.h"
#include "trainer/contract/config/config_rules.h"
#include "trainer/contract/config/text.h"
#include "trainer/contract/printable.h"

namespace coxswain::job {

namespace {

using Problems = std::vector<Problem>;

constexpr std::size_t kMaxNameLength = 51;  // leaves room for "-worker-4095" in a label of 63
constexpr std::size_t kMaxConfigMapBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxVariableBytes = 127 * 1024;  // Linux takes 128 KiB with the name

void check_name(const TrainingJob& job, Problems& problems) {
  const std::string& name = job.metadata.name;
  if (name.empty()) return;  // reported as missing
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto lower_or_digit = [&](char c) { return lower(c) || (c >= '0' && c <= '9'); };
  const bool fits =
      lower(name.front()) && lower_or_digit(name.back()) &&
      std::all_of(name.begin(), name.end(), [&](char c) { return lower_or_digit(c) || c == '-'; });
  if (!fits)
    problems.push_back({"metadata.name", 0,
                        "must be lower-case letters, digits and '-', begin with a letter and not "
                        "end with '-', got " +
                            contract::quote(name)});
  if (name.size() > kMaxNameLength)
    problems.push_back({"metadata.name", 0,
                        fmt::format("at most {} characters, got {}", kMaxNameLength, name.size())});
}

void check_namespace(const TrainingJob& job, Problems& problems) {
  const std::string& name = job.metadata.name_space;
  if (name.empty() || is_dns_label(name)) return;  // without one: that of who applies it
  problems.push_back(
      {"metadata.namespace", 0,
       "not a name of a namespace: at most 63 lower-case letters, digits and '-', got " +
           contract::quote(name)});
}

void check_roles(const Spec& spec, Problems& problems) {
  const bool servers = spec.strategy == Strategy::kParameterServer;
  if (servers && spec.server && spec.server->replicas > kMaxServers)
    problems.push_back({"spec.replicaSpecs.Server", 0,
                        fmt::format("required above {} workers: unless set, there are as many "
                                    "servers as workers",
                                    kMaxServers)});
  if (!servers && spec.server)
    problems.push_back({"spec.replicaSpecs.Server", 0,
                        "only with strategy ParameterServer; remove it or set the strategy"});
  if (servers && spec.launcher == Launcher::kMpi)
    problems.push_back({"spec.launcher", 0, "MPI is for AllReduce; use Env or leave it out"});
}

std::string template_path(Role role) {
  return fmt::format("spec.replicaSpecs.{}.template", word(role));
}

bool has_own_command(const ReplicaSpec& replicas) {
  const Json* container = trainer_container(replicas);
  return container && (container->contains("command") || container->contains("args"));
}

// Which program runs in the pods: ours, for `training`, or that of the templates.
void check_program(const Spec& spec, Problems& problems) {
  for (const RoleTraits& traits : roles_of(spec)) {
    if (spec.training && has_own_command(*traits.replicas(spec)))
      problems.push_back({template_path(traits.role), 0,
                          "with `training` the container runs coxswain-trainer: remove its command "
                          "and args, or remove `training` to run them"});
  }
  if (spec.training) return;
  if (spec.worker.pod_template.is_null())
    problems.push_back(
        {"spec.training", 0, "required, or a replicaSpecs.Worker.template whose container trains"});
  else if (launcher(spec) == Launcher::kMpi && !has_own_command(spec.worker))
    problems.push_back({template_path(Role::kWorker), 0,
                        "launcher MPI without `training` starts the container's command on every "
                        "rank: set command, in an image built from ours"});
  if (spec.server && spec.server->pod_template.is_null())
    problems.push_back({template_path(Role::kServer), 0,
                        "required without `training`: its container is the server"});
}

// The first word of the command, without its directory.
std::string program_of(const ReplicaSpec& replicas) {
  const std::vector<std::string> command = container_command(replicas);
  return command.empty() ? "" : command[0].substr(command[0].rfind('/') + 1);
}

// A launcher that every rank would start once more.
void check_launchers(const Spec& spec, Problems& problems) {
  if (spec.training || launcher(spec) != Launcher::kMpi) return;
  const std::string program = program_of(spec.worker);
  if (program == "torchrun")
    problems.push_back({template_path(Role::kWorker), 0,
                        "torchrun starts ranks of its own, by the variables of launcher Env: set "
                        "launcher: Env and rendezvous: [PyTorch]"});
  for (const char* name : {"mpirun", "mpiexec", "horovodrun"})
    if (program == name)
      problems.push_back(
          {template_path(Role::kWorker), 0,
           fmt::format("launcher MPI runs mpirun by itself: take {} and its options out of the "
                       "command, as [python3, train.py]",
                       name)});
}

// Whatever the gang's scheduler would not read.
void check_scheduling(const Spec& spec, Problems& problems) {
  const SchedulingPolicy& policy = spec.run_policy.scheduling;
  const bool no_group = !has_pod_group(policy.gang);
  const bool kueue = policy.gang == GangScheduler::kKueue;
  const auto refuse_if = [&](bool wrong, const char* field, const std::string& why) {
    if (wrong)
      problems.push_back({std::string("spec.runPolicy.schedulingPolicy.") + field, 0, why});
  };
  refuse_if(!policy.queue.empty() && policy.gang != GangScheduler::kVolcano && !kueue, "queue",
            "only Volcano and Kueue have queues: set gang to one of them, or remove it");
  refuse_if(policy.queue.empty() && kueue, "queue",
            "gang: Kueue needs it: write the name of a LocalQueue");
  refuse_if(kueue && !policy.queue.empty() && !is_dns_label(policy.queue), "queue",
            fmt::format("{} is no name of a LocalQueue", printable(policy.queue, 80)));
  refuse_if(!policy.topology_key.empty() && !is_qualified_name(policy.topology_key), "topologyKey",
            fmt::format("{} is no label's name: write one as topology.kubernetes.io/zone",
                        printable(policy.topology_key, 80)));
  refuse_if(policy.schedule_timeout && policy.gang != GangScheduler::kCoscheduling,
            "scheduleTimeoutSeconds",
            "only coscheduling knows it: set gang: Coscheduling, or remove it");
  const char* for_a_group =
      "only for a gang with a PodGroup: set gang: Volcano or Coscheduling, or remove it";
  refuse_if(policy.min_available && no_group, "minAvailable", for_a_group);
  refuse_if(!policy.min_resources.is_null() && no_group, "minResources", for_a_group);
  if (kueue && spec.elastic && spec.elastic->degraded_start_after)
    problems.push_back({"spec.elasticPolicy.degradedStartAfterSeconds", 0,
                        "Kueue admits a gang whole or not at all: remove it, or set another gang"});
  const int pods = pods_of(spec);
  refuse_if(
      policy.min_available > pods, "minAvailable",
      fmt::format("{} is above the {} pods of the gang", policy.min_available.value_or(0), pods));
}

// mpirun tells its ranks who they are; Horovod reads that, other frameworks their own variables.
void check_rendezvous(const Spec& spec, Problems& problems) {
  if (!spec.rendezvous) return;
  const bool mpi = launcher(spec) == Launcher::kMpi;
  const bool tensorflow =
      std::ranges::find(*spec.rendezvous, Framework::kTensorFlow) != spec.rendezvous->end();
  if (tensorflow && spec.server && !spec.training && !spec.success_policy)
    problems.push_back({"spec.successPolicy", 0,
                        "required: TensorFlow's workers beside servers never end by themselves; "
                        "write RankZero, the chief's end, or AllWorkers where yours do end"});
  for (const Framework framework : *spec.rendezvous) {
    const bool horovod = framework == Framework::kHorovod;
    if (horovod && !mpi)
      problems.push_back({"spec.rendezvous", 0,
                          "Horovod's ranks find each other by mpirun: set launcher: MPI, or leave "
                          "Horovod out"});
    if (!horovod && mpi)
      problems.push_back({"spec.rendezvous", 0,
                          fmt::format("{}'s variables come with launcher Env: set it, or leave {} "
                                      "out; ranks of mpirun read OMPI_COMM_WORLD_RANK",
                                      word(framework), word(framework))});
    if (framework == Framework::kMxnet && !mpi && !has_scheduler(spec))
      problems.push_back({"spec.rendezvous", 0,
                          "MXNet's workers meet at servers of its own: set strategy: "
                          "ParameterServer without `training`, or leave MXNet out"});
  }
}

void check_checkpoint(const Spec& spec, Problems& problems) {
  if (spec.checkpoint == CheckpointPolicy{}) return;
  if (!spec.training)
    problems.push_back(
        {"spec.checkpoint", 0,
         "only with `training`: a program of your own saves as it likes; remove it"});
  else if (!spec.checkpoints_volume)
    problems.push_back(
        {"spec.checkpoint", 0,
         "nothing is saved without a volume: add volumes.checkpoints, or remove it"});
  const auto& from = spec.checkpoint.from;
  if (!from) return;
  const int asked = (from->epoch ? 1 : 0) + (from->step ? 1 : 0) + (from->path ? 1 : 0);
  if (asked != 1)
    problems.push_back({"spec.checkpoint.from", 0, "give one of epoch, step and path"});
  if (!spec.checkpoint.resume)
    problems.push_back({"spec.checkpoint.from", 0, "not with resume: false, which starts anew"});
}

void check_elastic(const Spec& spec, Problems& problems) {
  if (!spec.elastic) return;
  const int replicas = spec.worker.replicas;
  const auto& [min, max, degraded, batch] = *spec.elastic;
  if (min && *min > replicas)
    problems.push_back({"spec.elasticPolicy.minReplicas", 0,
                        fmt::format("{} is above Worker.replicas, {}", *min, replicas)});
  if (max && *max < replicas)
    problems.push_back({"spec.elasticPolicy.maxReplicas", 0,
                        fmt::format("{} is below Worker.replicas, {}", *max, replicas)});
}

void check_failure_rules(const Spec& spec, Problems& problems) {
  for (std::size_t i = 0; i < spec.failure_rules.size(); ++i)
    for (const Role role : spec.failure_rules[i].on_roles)
      if (!traits_of(role).replicas(spec))
        problems.push_back({fmt::format("spec.failurePolicy.rules[{}].onRoles", i), 0,
                            fmt::format("this job has no {}; leave it out", word(role))});
}

void check_image(const Spec& spec, Problems& problems) {
  if (spec.image && !is_image_reference(*spec.image))
    problems.push_back(
        {"spec.image", 0, "not an image ([registry/]name[:tag]): " + contract::quote(*spec.image)});
}

// What is handed to every pod must fit into a ConfigMap, and into one environment variable.
void check_sizes(const TrainingJob& job, Problems& problems) {
  TrainingJob full = job;
  full.status.workers = job.spec.worker.replicas;
  const std::size_t bytes =
      hostfile(full).size() + worker_names(full).size() + training_config(full).size();
  if (bytes > kMaxConfigMapBytes)
    problems.push_back({"spec.replicaSpecs.Worker.replicas", 0,
                        fmt::format("hostfile and configuration would take {} bytes, at most {}: "
                                    "use fewer workers with more slots, or a shorter name",
                                    bytes, kMaxConfigMapBytes)});
  for (const auto& [name, value] : worker_spec(full, {}).environment)
    if (value.size() > kMaxVariableBytes)
      problems.push_back(
          {name == "TF_CONFIG" ? "spec.rendezvous" : "spec.replicaSpecs.Server", 0,
           fmt::format("{} would take {} bytes, at most {}: use fewer pods{}", name, value.size(),
                       kMaxVariableBytes, name == "TF_CONFIG" ? ", or leave TensorFlow out" : "")});
}

void check_training(const TrainingJob& job, Problems& problems) {
  if (!job.spec.training) return;
  const std::size_t before = problems.size();
  const contract::TrainerConfig config = read_training_parts(job, problems);
  if (problems.size() != before) return;
  const std::int64_t ranks = std::int64_t{job.spec.worker.replicas} * slots_per_worker(job.spec);
  const bool by_mpirun = launcher(job.spec) == Launcher::kMpi;
  if (config.communication.backend == CommunicationBackend::kMpi && !by_mpirun)
    problems.push_back({"spec.training.communication.backend", 0,
                        "mpi is for launcher MPI; write auto, or launcher: MPI"});
  if (config.communication.backend == CommunicationBackend::kTcp && by_mpirun)
    problems.push_back({"spec.training.communication.backend", 0,
                        "tcp is for launcher Env; write auto, or launcher: Env"});
  const bool has_servers = job.spec.strategy == Strategy::kParameterServer;
  if (job.spec.training->contains("parameterServer") && !has_servers)
    problems.push_back({"spec.training.parameterServer", 0,
                        "only with strategy ParameterServer; remove it or set the strategy"});
  if (config.kv_store != KvStore::kNone && coxswain::has_servers(config.kv_store) != has_servers)
    problems.push_back(
        {"spec.training.kvStore", 0,
         fmt::format("{} is for strategy {}", word(config.kv_store),
                     word(has_servers ? Strategy::kAllReduce : Strategy::kParameterServer))});
  if (config.kv_store == KvStore::kOneDevice && ranks > 1)
    problems.push_back({"spec.training.kvStore", 0,
                        fmt::format("OneDeviceStrategy is for one rank, and here are {}", ranks)});
  if (!suits_sums(config.communication.compression) && !has_servers)
    problems.push_back({"spec.training.communication.compression", 0,
                        fmt::format("{} is for strategy ParameterServer; write {}, or set the "
                                    "strategy",
                                    word(config.communication.compression), kOfSums)});
  if (config.communication.partial > 1 && has_servers)
    problems.push_back({"spec.training.communication.partial", 0,
                        "is for strategy AllReduce; write 1, or set the strategy"});
  const std::string lacking = contract::lacks_with_servers(config);
  if (has_servers && !lacking.empty())
    problems.push_back({"spec.training." + lacking, 0,
                        "is for strategy AllReduce; leave it out, or set the strategy"});
  if (has_servers && (config.device == Device::kCuda || asks_for_cuda(job.spec)))
    problems.push_back({"spec.strategy", 0,
                        "servers and GPUs do not go together in this version; write AllReduce, or "
                        "device: cpu and no GPUs"});
  if (config.reproducible == Reproducible::kAnyWorldSize && ranks > config.virtual_shards)
    problems.push_back({"spec.training.virtualShards", 0,
                        fmt::format("{} ranks need at least as many shards, got {}", ranks,
                                    config.virtual_shards)});
}

}  // namespace

std::vector<Problem> validate(const TrainingJob& job, const Installation& installation) {
  Problems problems = job.problems;
  const Spec& spec = job.spec;
  check_name(job, problems);
  check_namespace(job, problems);
  check_roles(spec, problems);
  check_image(spec, problems);
  for (const RoleTraits& traits : roles_of(spec))
    if (traits.role != Role::kScheduler)  // its template is Server's
      check_template(job, *traits.replicas(spec), template_path(traits.role), installation,
                     problems);
  if (job.problems.empty()) check_program(spec, problems);
  check_launchers(spec, problems);
  if (spec.data_volume)
    check_volume_source(*spec.data_volume, "spec.volumes.data", installation, problems);
  if (spec.checkpoints_volume)
    check_volume_source(*spec.checkpoints_volume, "spec.volumes.checkpoints", installation,
                        problems);
  check_checkpoint(spec, problems);
  check_elastic(spec, problems);
  check_failure_rules(spec, problems);
  check_scheduling(spec, problems);
  check_rendezvous(spec, problems);
  check_sizes(job, problems);
  check_training(job, problems);
  for (Problem& problem : problems)
    if (problem.line == 0) problem.line = line_of(job, problem.path);
  std::stable_sort(problems.begin(), problems.end(),
                   [](const Problem& a, const Problem& b) { return a.line < b.line; });
  return problems;
}

}  // namespace coxswain::job
