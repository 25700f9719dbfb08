#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "trainer/contract/worker/worker_env.h"

namespace coxswain::launch {

// Value. How mpirun is called.
struct MpirunCall {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;
  bool operator==(const MpirunCall&) const = default;
};

struct LocalMpi {
  const contract::WorkerEnv& env;
  std::filesystem::path trainer;  // each slot runs `trainer rank -- command`
  std::vector<std::string> command;
  std::filesystem::path shared_memory;  // for the segments between ranks; empty: mpirun's choice
  bool as_root = false;                 // mpirun refuses root unless told that it is meant
};

// All ranks of a world on this machine, without sshd. For Open MPI 4 and 5; what the user has set
// of its variables stands.
MpirunCall local_mpirun(const LocalMpi& options, const contract::EnvironmentLookup& lookup);

struct PodMpi {
  const contract::WorkerEnv& env;
  std::filesystem::path trainer;  // each slot runs `trainer rank -- command`
  std::vector<std::string> command;
  std::filesystem::path ssh_config;
};

// All ranks of a world on the hosts of env.hostfile, over SSH. As above.
MpirunCall pod_mpirun(const PodMpi& options, const contract::EnvironmentLookup& lookup);

// Where mpirun is, by PATH. Throws Error(65) naming the package to install.
std::filesystem::path find_mpirun(const contract::EnvironmentLookup& lookup);

}  // namespace coxswain::launch
