#include "trainer/launch/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "trainer/contract/worker/announced_ranks.h"
#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/launch/mpi_worker.h"
#include "trainer/launch/pod_worker.h"
#include "trainer/launch/rank_report.h"

namespace coxswain::launch {

namespace {

using contract::ChildProcess;
using contract::WorkerEnv;

std::vector<ChildProcess> start_ranks(const WorkerEnv& env, const WorkerOptions& options) {
  std::vector<ChildProcess> ranks;
  for (int local = 0; local < env.slots; ++local) {
    contract::ProcessOptions process;
    process.command = {options.trainer, "rank", "--"};
    process.command.insert(process.command.end(), options.command.begin(), options.command.end());
    process.environment = contract::to_env(env);
    process.environment["RANK"] = std::to_string(env.index * env.slots + local);
    process.environment["LOCAL_RANK"] = std::to_string(local);
    process.environment["LOCAL_WORLD_SIZE"] = std::to_string(env.slots);
    process.environment["WORLD_SIZE"] = std::to_string(env.world_size);
    process.listens = true;
    process.death_signal = SIGTERM;  // `rank` then tells its command, and kills it if it must
    ranks.emplace_back(process);
  }
  return ranks;
}

// Launcher Env: our ranks are our children. The first that fails takes the others with it.
contract::TerminationMessage run_own_ranks(const WorkerEnv& env, const WorkerOptions& options) {
  contract::SignalQueue signals({SIGTERM, SIGINT});
  std::vector<ChildProcess> ranks = start_ranks(env, options);
  bool one_failed = false;
  for (;;) {
    std::vector<int> descriptors{signals.descriptor()};
    for (ChildProcess& rank : ranks) {
      if (!rank.end()) descriptors.push_back(rank.descriptor());
    }
    if (descriptors.size() == 1) break;
    const auto failed = [](ChildProcess& rank) { return rank.end() && rank.end()->code != 0; };
    if (!one_failed && std::ranges::any_of(ranks, failed)) {
      one_failed = true;
      for (ChildProcess& rank : ranks) rank.signal(SIGTERM);
    }
    contract::wait_readable(descriptors, std::chrono::hours(1));
    while (const auto signal = signals.next()) {
      if (*signal != SIGTERM) continue;
      for (ChildProcess& rank : ranks) rank.signal(SIGUSR1);
    }
  }
  contract::AnnouncedRanks announced({contract::worker_directory(env)}, env.slots);
  announced.look();
  return combine(reports_of(announced));
}

WorkerOptions with_trainer(WorkerOptions options) {
  if (options.trainer.empty()) options.trainer = std::filesystem::read_symlink("/proc/self/exe");
  return options;
}

contract::TerminationMessage run(const WorkerEnv& env, const WorkerOptions& options) {
  if (options.launcher == Launcher::kEnv) return run_own_ranks(env, options);
  return env.run_dir.empty() ? run_pod_worker(env, options) : run_mpi_worker(env, options);
}

}  // namespace

int run_worker(const WorkerEnv& env, const WorkerOptions& given) {
  const WorkerOptions options = with_trainer(given);
  contract::TerminationMessage end;
  try {
    end = run(env, options);
  } catch (const Error& error) {
    end.exit_code = static_cast<int>(error.code());
    end.phase = "Start";
    end.reason = "CannotStart";
    end.message = error.what();
    contract::write_whole_file(contract::termination_file(env), contract::to_json(end));
    throw;
  }
  contract::write_whole_file(contract::termination_file(env), contract::to_json(end));
  return end.exit_code;
}

}  // namespace coxswain::launch
