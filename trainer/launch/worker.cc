#include "trainer/launch/worker.h"

#include <csignal>

#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/launch/mpi_worker.h"
#include "trainer/launch/on_host.h"
#include "trainer/launch/own_ranks.h"
#include "trainer/launch/pod_worker.h"

namespace coxswain::launch {

namespace {

using contract::WorkerEnv;

// Launcher Env: our ranks are our children.
contract::TerminationMessage run_own_ranks(const WorkerEnv& env, const WorkerOptions& options) {
  contract::SignalQueue signals({SIGTERM, SIGINT});
  OwnRanks ranks(env, options, /*captured=*/false);
  for (; !ranks.over(); ranks.look()) {
    std::vector<int> descriptors = ranks.descriptors();
    descriptors.push_back(signals.descriptor());
    contract::wait_readable(descriptors, std::chrono::hours(1));
    while (const auto signal = signals.next())
      if (*signal == SIGTERM) ranks.signal(SIGUSR1);
  }
  return ranks.end();
}

WorkerOptions with_trainer(WorkerOptions options) {
  if (options.trainer.empty()) options.trainer = std::filesystem::read_symlink("/proc/self/exe");
  return options;
}

contract::TerminationMessage run(const WorkerEnv& env, const WorkerOptions& options) {
  if (!options.host.empty()) return run_on_host(env, options);
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
