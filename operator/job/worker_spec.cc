#include "operator/job/worker_spec.h"

#include <fmt/format.h>

#include "operator/job/frameworks.h"
#include "operator/job/job_reader.h"
#include "operator/job/roles.h"
#include "trainer/contract/config/config_reader.h"
#include "trainer/contract/printable.h"
#include "trainer/contract/worker/worker_env.h"

namespace coxswain::job {

namespace {

constexpr std::size_t kMostCause = 300;  // characters

bool mounts_checkpoints(const Spec& spec, const WorkerId& id) {
  if (!spec.checkpoints_volume) return false;
  return !spec.training || (id.role == Role::kWorker && id.index == 0);
}

// Why this attempt began, or this pod was made anew in it; nothing of the first.
std::string restart_cause(const Status& status) {
  const Condition* restarting = find_condition(status, condition::kRestarting);
  if (restarting && restarting->status)
    return printable(fmt::format("{}: {}", restarting->reason, restarting->message), kMostCause);
  const Condition* queued = find_condition(status, condition::kQueued);
  if (queued && queued->status && queued->reason == "Replacing")
    return printable(queued->message, kMostCause);
  return "";
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
  // Rank 0 keeps the run's history.
  if (spec.training && id.role == Role::kWorker && id.index == 0)
    env.restart_cause = restart_cause(job.status);
  env.slots = slots_per_worker(spec);
  env.world_size = job.status.workers * env.slots;
  if (spec.training) env.config = paths.config;
  if (mounts_checkpoints(spec, id)) env.checkpoints = paths.checkpoints;
  env.hostfile = paths.hostfile;
  if (spec.server) env.servers = addresses(job, Role::kServer);
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
  add_frameworks(job, id, paths, worker.environment);
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
  if (asks_for_cuda(job.spec) && !job.spec.training->contains("device")) config.device = paths.gpu;
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
