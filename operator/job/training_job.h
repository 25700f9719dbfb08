#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/job/spec.h"
#include "operator/job/status.h"

// A TrainingJob is a value: what the user asked for (spec) and what was decided and seen (status).
// Field names and meanings are those of docs/contract.md; defaults are filled in when it is read.
namespace coxswain::job {

// Role and index name the pod; attempt and incarnation tell it from those that had its name before:
// of an earlier gang, and of this one.
struct WorkerId {
  Role role = Role::kWorker;
  int index = 0;
  int attempt = 0;
  int incarnation = 0;
  auto operator<=>(const WorkerId&) const = default;
};

struct Metadata {
  std::string name;
  std::string name_space = "default";
  std::string uid;
  std::string resource_version;
  int generation = 0;
  std::optional<Time> creation_time;
  std::optional<Time> deletion_time;
  bool operator==(const Metadata&) const = default;
};

// Something wrong with a job, and what to write instead. `line` is 0 where it is not known.
struct Problem {
  std::string path;  // spec.replicaSpecs.Worker.replicas
  int line = 0;
  std::string message;
  bool operator==(const Problem&) const = default;
};

struct TrainingJob {
  Metadata metadata;
  Spec spec;
  Status status;
  std::vector<Problem> problems;     // what reading it found wrong; Invalid while there are any
  std::map<std::string, int> lines;  // of each field's path, if it was read from a file
  bool operator==(const TrainingJob&) const = default;
};

inline constexpr const char* kApiVersion = "coxswain.dev/v1alpha1";
inline constexpr const char* kKind = "TrainingJob";
inline constexpr const char* kManagedBy = "coxswain.dev/operator";

// The spec's optional fields with their defaults, which depend on others.
Launcher launcher(const Spec& spec);             // MPI for AllReduce with `training`, else Env
bool trains_over_tcp(const Spec& spec);          // ranks of ours find each other without mpirun
SuccessPolicy success_policy(const Spec& spec);  // RankZero for MPI, else AllWorkers
int slots_per_worker(const Spec& spec);          // auto: the trainer container's GPU limit, else 1

// Whether its pods are told of their peers in this framework's words.
bool wants(const Spec& spec, Framework framework);
bool has_scheduler(const Spec& spec);  // MXNet's, beside its servers

int gpus_per_worker(const Spec& spec);  // the trainer container's GPU limit
bool asks_for_cuda(const Spec& spec);   // whether those are NVIDIA's

// The container that trains: the one named `trainer`, else the only one. Null if there is no
// template, or none can be told.
const Json* trainer_container(const ReplicaSpec& replicas);

// What that container runs: command, then args, as far as they are words.
std::vector<std::string> container_command(const ReplicaSpec& replicas);

bool is_terminal(const Status& status);                                 // Succeeded or Failed
std::string worker_name(const TrainingJob& job, Role role, int index);  // <job>-worker-<i>
std::string short_name(Role role, int index);                           // worker-<i>

std::string to_text(Phase phase);
std::string to_text(const WorkerId& id);      // worker-3 attempt=1 incarnation=2
std::string to_text(const Problem& problem);  // line 7: spec.training.epochs: ...

}  // namespace coxswain::job
