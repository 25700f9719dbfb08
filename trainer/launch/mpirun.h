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

// All ranks of `env` on this machine, without sshd: each slot runs `trainer rank -- command`.
// For Open MPI 4 and 5; what the user has set of its variables stands. `as_root`: mpirun refuses
// root unless told that it is meant.
MpirunCall local_mpirun(const contract::WorkerEnv& env, const std::filesystem::path& trainer,
                        const std::vector<std::string>& command, bool as_root,
                        const contract::EnvironmentLookup& lookup);

// Where mpirun is, by PATH. Throws Error(65) naming the package to install.
std::filesystem::path find_mpirun(const contract::EnvironmentLookup& lookup);

}  // namespace coxswain::launch
