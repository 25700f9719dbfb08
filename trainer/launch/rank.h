#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace coxswain::launch {

struct RankOptions {
  std::vector<std::string> command;       // what the rank runs
  std::chrono::milliseconds grace{2000};  // from the order to leave at once to KILL
};

// Supervises one rank: started by mpirun on every slot, or by `worker` with launcher Env.
//
// The command dies with this process, and is told to leave when whoever started this process ends.
// SIGUSR1 (save and stop) is handed on; SIGTERM (leave at once) too, and followed by KILL. When the
// command has ended, how it ended is in rank_file(). Returns what mpirun shall see: 0 for a command
// that is done or that saved and left (75), else the command's code, 128 + signal for signals.
// Throws Error when the rank can't be told or the command can't be started.
int run_rank(const RankOptions& options);

}  // namespace coxswain::launch
