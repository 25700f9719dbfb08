#include "operator/job/frameworks.h"

#include <fmt/format.h>

#include "operator/job/roles.h"
#include "operator/job/words.h"

namespace coxswain::job {

namespace {

using Environment = std::map<std::string, std::string>;

// Above this, TF_CONFIG, which names every worker, is left out unless it is asked for.
constexpr int kMostWorkersInTfConfig = 256;

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

// What TensorFlow calls a pod. Beside parameter servers the first worker is the chief, which tells
// the others what to do, and these count from 0.
struct Task {
  std::string_view type;  // empty: it is none of TensorFlow's
  int index = 0;
};
Task task_of(const Spec& spec, const WorkerId& id) {
  if (id.role != Role::kWorker || !spec.server) return {traits_of(id.role).task, id.index};
  return id.index == 0 ? Task{"chief", 0} : Task{"worker", id.index - 1};
}

void add_tensorflow(const TrainingJob& job, const WorkerId& id, Environment& environment) {
  const bool asked = job.spec.rendezvous.has_value();
  if (!asked && job.status.workers > kMostWorkersInTfConfig) return;
  Json cluster;
  for (const WorkerId& peer : gang(job))
    if (const Task task = task_of(job.spec, peer); !task.type.empty())
      cluster[std::string(task.type)].push_back(address(job, peer.role, peer.index));
  const Task own = task_of(job.spec, id);
  if (own.type.empty()) return;
  const Json task = {{"type", own.type}, {"index", own.index}};
  environment["TF_CONFIG"] = Json{{"cluster", cluster}, {"task", task}}.dump();
}

// ps-lite's. It binds its own address where it does not listen on all of them, which only its
// scheduler does, and only when it is told of Kubernetes; a name it can but call.
void add_mxnet(const TrainingJob& job, const WorkerId& id, Environment& environment) {
  environment["DMLC_ROLE"] = contract::to_text(id.role);
  environment["DMLC_PS_ROOT_URI"] = host_name(job, Role::kScheduler, 0);
  environment["DMLC_PS_ROOT_PORT"] = std::to_string(ports_of(job).scheduler);
  environment["DMLC_NUM_WORKER"] = std::to_string(traits_of(Role::kWorker).size(job));
  environment["DMLC_NUM_SERVER"] = std::to_string(traits_of(Role::kServer).size(job));
  environment["DMLC_USE_KUBERNETES"] = "1";
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

}  // namespace

void add_frameworks(const TrainingJob& job, const WorkerId& id, const Paths& paths,
                    Environment& environment) {
  const Spec& spec = job.spec;
  if (launcher(spec) == Launcher::kEnv) {
    if (wants(spec, Framework::kPyTorch) && id.role == Role::kWorker)
      add_pytorch(job, id, environment);
    if (wants(spec, Framework::kTensorFlow)) add_tensorflow(job, id, environment);
    if (has_scheduler(spec)) add_mxnet(job, id, environment);
  } else {
    if (!paths.hostfile.empty()) add_open_mpi(paths, environment);
    if (wants(spec, Framework::kHorovod)) add_horovod(job, environment);
  }
  if (!spec.training && !paths.hostfile.empty()) add_deep_learning(job, paths, environment);
}

}  // namespace coxswain::job
