#include "operator/job/worker_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/job/job_reader.h"
#include "operator/job/roles.h"
#include "operator/job/words.h"
#include "trainer/contract/config/config_reader.h"
#include "trainer/contract/worker/worker_env.h"

namespace coxswain::job {

namespace {

using Environment = std::map<std::string, std::string>;

// Above this, TF_CONFIG, which names every worker, is left out unless it is asked for.
constexpr int kMostWorkersInTfConfig = 256;

std::string host_name(const TrainingJob& job, Role role, int index) {
  return fmt::format("{}.{}.{}.svc", worker_name(job, role, index), job.metadata.name,
                     job.metadata.name_space);
}

// "<host>:<port>" of each pod of a role.
std::vector<std::string> addresses(const TrainingJob& job, const RoleTraits& traits) {
  std::vector<std::string> list;
  for (int i = 0; i < traits.size(job); ++i)
    list.push_back(fmt::format("{}:{}", host_name(job, traits.role, i),
                               ports_of(job).*traits.port));
  return list;
}

bool wants(const Spec& spec, Framework framework) {
  // Our own trainer is no Horovod; it needs to be asked for.
  if (!spec.rendezvous) return framework != Framework::kHorovod || !spec.training;
  const auto& asked = *spec.rendezvous;
  return std::find(asked.begin(), asked.end(), framework) != asked.end();
}

bool mounts_checkpoints(const Spec& spec, const WorkerId& id) {
  if (!spec.checkpoints_volume) return false;
  return !spec.training || (id.role == Role::kWorker && id.index == 0);
}

contract::WorkerEnv our_environment(const TrainingJob& job, const WorkerId& id,
                                    const Paths& paths) {
  const Spec& spec = job.spec;
  contract::WorkerEnv env;
  env.job = job.metadata.name;
  env.job_uid = job.metadata.uid;
  env.role = id.role;
  env.index = id.index;
  env.attempt = id.attempt;
  env.incarnation = id.incarnation;
  env.slots = slots_per_worker(spec);
  env.world_size = job.status.workers * env.slots;
  if (spec.training) env.config = paths.config;
  if (mounts_checkpoints(spec, id)) env.checkpoints = paths.checkpoints;
  env.hostfile = paths.hostfile;
  if (spec.server) env.servers = addresses(job, traits_of(Role::kServer));
  env.batch_per_worker = spec.elastic && spec.elastic->batch == BatchOnResize::kPerWorker;
  env.startup_seconds = static_cast<int>(spec.run_policy.startup_deadline.count());
  env.run_dir = paths.run_dir;
  env.ssh_port = ports_of(job).ssh;
  env.rank_port = ports_of(job).*traits_of(id.role).endpoint;
  if (trains_over_tcp(spec)) {
    env.peer_port = ports_of(job).peer;
    env.key = paths.key;
  }
  return env;
}

// torchrun and torch.distributed.
void add_pytorch(const TrainingJob& job, const WorkerId& id, Environment& environment) {
  const int slots = slots_per_worker(job.spec);
  // torchrun takes each of its flags from PET_ and the flag's name.
  for (const char* prefix : {"", "PET_"}) {
    environment[fmt::format("{}MASTER_ADDR", prefix)] = host_name(job, Role::kWorker, 0);
    environment[fmt::format("{}MASTER_PORT", prefix)] = std::to_string(ports_of(job).master);
  }
  environment["WORLD_SIZE"] = std::to_string(job.status.workers * slots);
  environment["PET_NODE_RANK"] = std::to_string(id.index);
  environment["PET_NPROC_PER_NODE"] = std::to_string(slots);
  environment["PET_NNODES"] = std::to_string(job.status.workers);
  if (slots != 1) return;  // then each rank's own are set by who starts it
  environment["RANK"] = std::to_string(id.index);
  environment["LOCAL_RANK"] = "0";
}

void add_tensorflow(const TrainingJob& job, const WorkerId& id, Environment& environment) {
  const bool asked = job.spec.rendezvous.has_value();
  if (!asked && job.status.workers > kMostWorkersInTfConfig) return;
  Json cluster;
  for (const RoleTraits& traits : roles_of(job.spec))
    if (auto hosts = addresses(job, traits); !hosts.empty())
      cluster[std::string(traits.task)] = std::move(hosts);
  const Json task = {{"type", traits_of(id.role).task}, {"index", id.index}};
  environment["TF_CONFIG"] = Json{{"cluster", cluster}, {"task", task}}.dump();
}

// Open MPI 4 (ORTE) and 5 (PRRTE) under their own names.
void add_open_mpi(const Paths& paths, Environment& environment) {
  environment["OMPI_MCA_orte_default_hostfile"] = paths.hostfile;
  environment["OMPI_MCA_orte_keep_fqdn_hostnames"] = "true";
  environment["PRTE_MCA_prte_default_hostfile"] = paths.hostfile;
  environment["PRTE_MCA_prte_keep_fqdn_hostnames"] = "true";
}

// Without it a Horovod that was built without MPI would train alone in each rank; with it, it says
// so. A template that knows better says it itself.
void add_horovod(const TrainingJob& job, Environment& environment) {
  constexpr const char* kController = "HOROVOD_CONTROLLER";
  const Json* container = trainer_container(job.spec.worker);
  if (container && container->contains("env") && container->at("env").is_array())
    for (const Json& given : container->at("env"))
      if (given.is_object() && given.value("name", Json()) == kController) return;
  environment[kController] = "mpi";
}

// The names of deeplearning-cfn.
void add_deep_learning(const TrainingJob& job, const Paths& paths, Environment& environment) {
  environment["DEEPLEARNING_WORKERS_PATH"] = paths.workers;
  environment["DEEPLEARNING_WORKERS_COUNT"] = std::to_string(job.status.workers);
  environment["DEEPLEARNING_WORKER_GPU_COUNT"] = std::to_string(gpus_per_worker(job.spec));
}

std::vector<std::string> own_command(const Spec& spec) {
  std::vector<std::string> command;
  const Json* container = trainer_container(spec.worker);
  if (!container) return command;
  for (const char* key : {"command", "args"}) {
    const auto words = container->find(key);
    if (words == container->end() || !words->is_array()) continue;
    for (const Json& part : *words)
      if (part.is_string()) command.push_back(part.get<std::string>());
  }
  return command;
}

std::vector<std::string> command_of(const TrainingJob& job, const WorkerId& id,
                                    const Paths& paths) {
  const Spec& spec = job.spec;
  if (!spec.training && launcher(spec) == Launcher::kEnv) return {};
  if (id.role == Role::kServer) return {"coxswain-trainer", "server", "--config", paths.config};
  std::vector<std::string> command = {"coxswain-trainer", "worker"};
  if (launcher(spec) == Launcher::kEnv) command.insert(command.end(), {"--launcher", "env"});
  command.push_back("--");
  const std::vector<std::string> rank =
      spec.training
          ? std::vector<std::string>{"coxswain-trainer", "train", "--config", paths.config}
          : own_command(spec);
  command.insert(command.end(), rank.begin(), rank.end());
  return command;
}

}  // namespace

WorkerSpec worker_spec(const TrainingJob& job, const WorkerId& id, const Paths& paths) {
  const Spec& spec = job.spec;
  WorkerSpec worker;
  worker.id = id;
  worker.name = worker_name(job, id.role, id.index);
  worker.image = job.status.image;
  worker.command = command_of(job, id, paths);
  worker.environment = contract::to_env(our_environment(job, id, paths));
  if (launcher(spec) == Launcher::kEnv) {
    if (wants(spec, Framework::kPyTorch) && id.role == Role::kWorker)
      add_pytorch(job, id, worker.environment);
    if (wants(spec, Framework::kTensorFlow)) add_tensorflow(job, id, worker.environment);
  } else {
    if (!paths.hostfile.empty()) add_open_mpi(paths, worker.environment);
    if (wants(spec, Framework::kHorovod)) add_horovod(job, worker.environment);
  }
  if (!spec.training && !paths.hostfile.empty()) add_deep_learning(job, paths, worker.environment);
  worker.serves = serves(spec, id.role, id.index);
  // A server of ours holds weights alone.
  worker.mounts_data = spec.data_volume && !(spec.training && id.role == Role::kServer);
  worker.mounts_checkpoints = mounts_checkpoints(spec, id);
  return worker;
}

std::string hostfile(const TrainingJob& job) {
  std::string text;
  for (int i = 0; i < job.status.workers; ++i)
    text +=
        fmt::format("{} slots={}\n", host_name(job, Role::kWorker, i), slots_per_worker(job.spec));
  return text;
}

std::string worker_names(const TrainingJob& job) {
  std::string text;
  const int count = job.spec.training ? 0 : job.status.workers;
  for (int i = 0; i < count; ++i) text += host_name(job, Role::kWorker, i) + "\n";
  return text;
}

std::string training_config(const TrainingJob& job, const Paths& paths) {
  if (!job.spec.training) return "";
  std::vector<Problem> problems;
  auto config = read_training_parts(job, problems);
  if (!problems.empty()) return "";
  if (config.data.path.empty() && config.data.format != DataFormat::kSynthetic)
    config.data.path = job.spec.data_volume ? paths.data : paths.bundled_mnist;
  if (config.checkpoint.path.empty() && job.spec.checkpoints_volume)
    config.checkpoint.path = paths.checkpoints;
  return contract::to_yaml(config);
}

bool needs_keys(const Spec& spec) {
  return launcher(spec) == Launcher::kMpi || trains_over_tcp(spec);
}

Json default_resources(int slots) {
  const auto amounts = [&](int gigabytes) {
    return Json{{"cpu", std::to_string(slots)}, {"memory", fmt::format("{}Gi", gigabytes * slots)}};
  };
  return {{"requests", amounts(2)}, {"limits", amounts(4)}};
}

std::string to_text(const WorkerSpec& spec) {
  std::string text = fmt::format("{}\n", spec.name);
  if (!spec.image.empty()) text += fmt::format("  image    {}\n", spec.image);
  text += fmt::format("  command  {}\n", spec.command.empty()
                                             ? "the container's own"
                                             : fmt::format("{}", fmt::join(spec.command, " ")));
  if (spec.mounts_data) text += "  mount    data\n";
  if (spec.mounts_checkpoints) text += "  mount    checkpoints\n";
  for (const auto& [name, value] : spec.environment) text += fmt::format("  {}={}\n", name, value);
  return text;
}

}  // namespace coxswain::job
