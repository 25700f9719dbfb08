#include "trainer/launch/own_ranks.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "trainer/contract/worker/announced_ranks.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/launch/rank_report.h"

namespace coxswain::launch {

OwnRanks::OwnRanks(const contract::WorkerEnv& env, const WorkerOptions& options, bool captured)
    : env_(env) {
  for (int local = 0; local < env.slots; ++local) start(options, local, captured);
  look();
}

void OwnRanks::start(const WorkerOptions& options, int local, bool captured) {
  const int rank = env_.index * env_.slots + local;
  contract::ProcessOptions process;
  process.command = {options.trainer, "rank", "--"};
  process.command.insert(process.command.end(), options.command.begin(), options.command.end());
  process.environment = contract::to_env(env_);
  process.environment["RANK"] = std::to_string(rank);
  process.environment["LOCAL_RANK"] = std::to_string(local);
  process.environment["LOCAL_WORLD_SIZE"] = std::to_string(env_.slots);
  process.environment["WORLD_SIZE"] = std::to_string(env_.world_size);
  process.listens = true;
  process.death_signal = SIGTERM;  // `rank` then tells its command, and kills it if it must
  if (!captured) {
    ranks_.emplace_back(process);
    return;
  }
  contract::Pipe output = contract::make_pipe(), errors = contract::make_pipe();
  process.stdout_fd = output.in.get();
  process.stderr_fd = errors.in.get();
  ranks_.emplace_back(process);
  outputs_.push_back({rank, false, std::move(output.out)});
  outputs_.push_back({rank, true, std::move(errors.out)});
}

void OwnRanks::look() {
  running_.clear();
  bool failed = false;
  for (contract::ChildProcess& rank : ranks_) {
    const auto end = rank.end();
    if (!end) running_.push_back(rank.descriptor());
    failed = failed || (end && end->code != 0);
  }
  if (failed && !std::exchange(one_failed_, true)) signal(SIGTERM);
}

bool OwnRanks::over() const { return running_.empty(); }

std::vector<int> OwnRanks::descriptors() const { return running_; }

void OwnRanks::signal(int number) {
  for (contract::ChildProcess& rank : ranks_) rank.signal(number);
}

contract::TerminationMessage OwnRanks::end() const {
  contract::AnnouncedRanks announced({contract::worker_directory(env_)}, env_.slots);
  announced.look();
  return combine(reports_of(announced));
}

}  // namespace coxswain::launch
