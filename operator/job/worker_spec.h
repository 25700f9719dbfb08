#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/job/training_job.h"
#include "trainer/options/options.h"

namespace coxswain::job {

// Where a worker finds its files. The defaults are those of our pods.
struct Paths {
  std::string config = "/etc/coxswain/training.yaml";
  std::string hostfile = "/etc/coxswain/hostfile";
  std::string workers = "/etc/coxswain/workers";  // of programs that are not ours
  std::string key = "/etc/coxswain/keys/server_key";  // of ranks that mpirun does not start
  std::string data = "/data";
  std::string checkpoints = "/checkpoints";
  std::string bundled_mnist = "/usr/share/coxswain/mnist";  // for jobs without a data volume
  std::string run_dir;                                      // local runs only
  Device gpu = Device::kCuda;  // of jobs that ask for NVIDIA's GPUs and name no device
  bool operator==(const Paths&) const = default;
};

// What one worker is, whether it becomes a pod or a process.
struct WorkerSpec {
  WorkerId id;
  std::string name;                  // <job>-worker-<i>
  std::string image;                 // the job's recorded image; empty: the template's own
  std::vector<std::string> command;  // of PID 1; empty: the container's own
  std::map<std::string, std::string> environment;
  bool serves = false;  // ends only when told to: MPI workers >= 1, servers
  bool mounts_data = false;
  bool mounts_checkpoints = false;
  bool operator==(const WorkerSpec&) const = default;
};

// The worker `id` of the recorded attempt: job.status gives the attempt's size and image.
WorkerSpec worker_spec(const TrainingJob& job, const WorkerId& id, const Paths& paths = {});

// "<job>-worker-<i>.<job>.<namespace>.svc slots=<n>", one line a worker, in rank order.
std::string hostfile(const TrainingJob& job);

// The same names alone, for programs that are not ours. Empty for a job with `training`.
std::string worker_names(const TrainingJob& job);

// The `training` part with what the job itself says (checkpoint policy, where data and checkpoints
// lie), as the ranks read it. Empty for a job without `training` and for an invalid one.
std::string training_config(const TrainingJob& job, const Paths& paths = {});

// True for jobs whose programs know each other by keys.
bool needs_keys(const Spec& spec);

// What the container of a job without a template asks for and gets, for `slots` ranks.
Json default_resources(int slots);

// Name, command, environment and mounts, one a line.
std::string to_text(const WorkerSpec& spec);

}  // namespace coxswain::job
