#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/contract/error.h"
#include "trainer/contract/words.h"
#include "trainer/contract/worker/constants.h"

namespace coxswain::contract {

enum class Role { kWorker, kServer, kScheduler };
constexpr Words<Role, 3> words_of(Role) {  // of a job
  return {{{Role::kWorker, "Worker"},
           {Role::kServer, "Server"},
           {Role::kScheduler, "Scheduler"}}};
}
std::string_view to_text(Role role);  // of a pod: "worker", "server", "scheduler"
std::optional<Role> role_of(std::string_view text);

// Value. What the operator tells a pod, and a pod its ranks: the COXSWAIN_* variables, and no other
// source of truth. to_env and from_env are inverse to each other.
struct WorkerEnv {
  std::string job;                    // COXSWAIN_JOB
  std::string job_uid;                // COXSWAIN_JOB_UID; empty: not known
  Role role = Role::kWorker;          // COXSWAIN_ROLE
  int index = 0;                      // COXSWAIN_INDEX, of the pod
  int attempt = 0;                    // COXSWAIN_ATTEMPT
  int incarnation = 0;                // COXSWAIN_INCARNATION; left out of the first in an attempt
  std::string restart_cause;          // COXSWAIN_RESTART_CAUSE; empty: nothing ended before it
  int world_size = 1;                 // COXSWAIN_WORLD_SIZE, workers x slots
  int slots = 1;                      // COXSWAIN_SLOTS
  std::filesystem::path config;       // COXSWAIN_CONFIG; empty: none
  std::filesystem::path checkpoints;  // COXSWAIN_CHECKPOINTS; empty: none (workers >= 1)
  std::filesystem::path hostfile;     // COXSWAIN_HOSTFILE; empty: none
  std::vector<std::string> servers;   // COXSWAIN_SERVERS, "host:port,host:port"
  bool batch_per_worker = false;      // COXSWAIN_BATCH_ON_RESIZE=perWorker: a new number of ranks
                                      // changes the batch over all of them; else it stays
  int startup_seconds = 600;          // COXSWAIN_STARTUP_SECONDS
  int ssh_port = kSshPort;            // COXSWAIN_SSH_PORT; left out where it is the usual one
  int rank_port = kRankPort;          // COXSWAIN_RANK_PORT; the same
  int peer_port = kServerPort;        // COXSWAIN_PEER_PORT; the same. Of a host's first rank, where
                                      // ranks find each other without MPI
  std::filesystem::path key;          // COXSWAIN_KEY; what they prove to each other; empty: none
  std::filesystem::path run_dir;      // COXSWAIN_RUN_DIR; local runs only, empty in a pod
  std::string log_format;             // COXSWAIN_LOG_FORMAT, "text" or "json"; empty: not said
  int terminal_columns = 0;           // COXSWAIN_TERMINAL_COLUMNS; 0: the output is no terminal
  bool operator==(const WorkerEnv&) const = default;
};

// Empty values are left out.
std::map<std::string, std::string> to_env(const WorkerEnv& env);

// Every name that to_env() may give. An empty value is as good as none to from_env().
std::vector<std::string> worker_env_names();

using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

// Throws Error (65) naming variable and value. COXSWAIN_JOB is required; the others have the
// defaults above.
WorkerEnv from_env(const EnvironmentLookup& lookup);

// True when this process was started by a worker of a job (COXSWAIN_JOB is there).
bool has_worker_env(const EnvironmentLookup& lookup);

// The environment of this process. Nothing else in either program reads it.
std::optional<std::string> lookup_environment(const std::string& name);
std::map<std::string, std::string> whole_environment();

}  // namespace coxswain::contract
