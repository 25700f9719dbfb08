#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/contract/worker/worker_env.h"

// The files through which the processes of one attempt know of each other, for their user alone. In
// a pod they lie in kRunDirectory, in a local run in <run dir>/<attempt>/<role>-<index>.
namespace coxswain::contract {

std::filesystem::path worker_directory(const WorkerEnv& env);  // of env.role and env.index

// "<process> <rank>" a line: the supervisors of the worker's ranks, in the order of their start.
std::filesystem::path pid_file(const std::filesystem::path& worker_directory);
// How a rank ended, written by its supervisor.
std::filesystem::path rank_file(const std::filesystem::path& worker_directory, int rank);
// What a rank printed; local runs only: a cluster keeps its pods' logs itself.
std::filesystem::path output_file(const std::filesystem::path& worker_directory, int rank);
// The termination message (to_json) that the command of a rank leaves before it ends, if it can.
std::filesystem::path command_message_file(const std::filesystem::path& worker_directory, int rank);
// The worker's own termination message: kTerminationMessagePath in a pod.
std::filesystem::path termination_file(const WorkerEnv& env);
// The port of rank 0's endpoint; local runs only, where any free port is taken.
std::filesystem::path endpoint_file(const std::filesystem::path& worker_directory);
std::optional<std::uint16_t> read_endpoint(const std::filesystem::path& worker_directory);
// The host on which the worker's ranks are; runs over hosts only.
std::filesystem::path host_file(const std::filesystem::path& worker_directory);

struct AnnouncedRank {
  pid_t pid = 0;
  int rank = 0;
  bool operator==(const AnnouncedRank&) const = default;
};

// What pid_file() holds; empty when there is none.
std::vector<AnnouncedRank> read_announced(const std::filesystem::path& worker_directory);

// Adds this process to pid_file(), as the supervisor of `rank`; makes the directory.
void announce_this_process(const std::filesystem::path& worker_directory, int rank);

// The variables of a pod's first process, for ranks that come over SSH, which brings none. Throw
// Error(74, 65).
void save_environment(const std::filesystem::path& worker_directory,
                      const std::map<std::string, std::string>& variables);
std::map<std::string, std::string> load_environment(const std::filesystem::path& worker_directory);

// Nothing when it can't be read or holds more than `max_bytes`.
std::optional<std::string> read_small_file(const std::filesystem::path& file,
                                           std::size_t max_bytes);

// All of it or nothing is seen by readers. Makes the directory. Throws Error(74).
void write_whole_file(const std::filesystem::path& file, std::string_view text);

}  // namespace coxswain::contract
