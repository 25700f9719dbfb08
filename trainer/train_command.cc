#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>

#include "trainer/build.h"
#include "trainer/commands.h"
#include "trainer/communicators.h"
#include "trainer/contract/config/config_reader.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/contract/worker/termination_message.h"
#include "trainer/report/json_log.h"
#include "trainer/report/observers.h"
#include "trainer/report/progress_bar.h"
#include "trainer/report/progress_endpoint.h"
#include "trainer/report/text_sink.h"
#include "trainer/train/training_loop.h"

namespace coxswain {

namespace {

using contract::lookup_environment;
using contract::WorkerEnv;

std::atomic<bool> stop_requested = false;

void request_stop(int) { stop_requested.store(true, std::memory_order_relaxed); }

// mpirun is ending the job because another rank is gone: no collective can help any more.
void leave_now(int) { _exit(static_cast<int>(ExitCode::kPeerLost)); }

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

// Under mpirun SIGUSR1 asks to save and leave and SIGTERM says that it is too late; alone, any wish to end is
// a wish to save first.
void handle_signals(bool under_mpirun) {
  handle(SIGUSR1, request_stop);
  handle(SIGTERM, under_mpirun ? leave_now : request_stop);
  handle(SIGINT, under_mpirun ? SIG_IGN : request_stop);
}

void leave_message(const std::optional<WorkerEnv>& env, const contract::TerminationMessage& message) {
  if (!env.has_value()) return;
  std::ofstream(contract::command_message_file(contract::worker_directory(*env), message.rank))
      << contract::to_json(message);
}

// What rank 0 shows and serves. A rank of a job keeps the last line for `coxswain run`, which knows of restarts.
class Reports {
 public:
  Reports(const CommandLine& line, const std::optional<WorkerEnv>& env)
      : sink_(STDOUT_FILENO), bar_(sink_, {}), json_(sink_, {}) {
    std::vector<std::reference_wrapper<train::Observer>> all;
    if (line.log_format == "json") {
      all.push_back(json_);
    } else {
      all.push_back(bar_);
    }
    if (env.has_value()) {
      report::ProgressEndpointOptions options;
      if (!env->run_dir.empty()) options.port = 0;
      endpoint_ = std::make_unique<report::ProgressEndpoint>(options);
      if (!env->run_dir.empty()) {
        std::ofstream(contract::endpoint_file(contract::worker_directory(*env))) << endpoint_->port();
      }
      all.push_back(*endpoint_);
    }
    observers_ = std::make_unique<report::Observers>(all);
  }

  train::Observer& observer() { return *observers_; }
  contract::ProgressDocument latest() const {
    return endpoint_ ? endpoint_->latest() : contract::ProgressDocument{};
  }

 private:
  report::TextSink sink_;
  report::ProgressBar bar_;
  report::JsonLog json_;
  std::unique_ptr<report::ProgressEndpoint> endpoint_;
  std::unique_ptr<report::Observers> observers_;
};

// A rank that does not lead has nobody to tell.
class Silent : public train::Observer {
 public:
  void started(const train::RunInfo&) override {}
  void stepped(const train::StepReport&) override {}
  void finished_epoch(const train::EpochReport&) override {}
  void saved(const train::CheckpointReport&) override {}
  void warned(const std::string&) override {}
  void finished(const train::Summary&) override {}
};

int train_rank(const CommandLine& line, const contract::TrainerConfig& config,
               const std::optional<WorkerEnv>& env, int& rank) {
  train::TrainOptions options = make_train_options(config, env);
  options.threads = threads_per_rank(config, ranks_on_this_machine(env));
  auto communicator = make_communicator();
  rank = communicator->rank();
  const bool leads = rank == 0;
  const auto training = open_training_set(config);
  const auto test = open_test_set(config);
  const auto backend = make_backend(config, options.threads);
  Silent silent;
  std::unique_ptr<Reports> reports = leads ? std::make_unique<Reports>(line, env) : nullptr;
  const auto result = train::train(
      options, {*backend, *training, test.get(), std::move(communicator),
                leads ? reports->observer() : silent, stop_requested});
  const ExitCode code = result == train::Result::kSucceeded ? ExitCode::kDone : ExitCode::kSaved;
  if (leads) {
    const auto latest = reports->latest();
    leave_message(env, {.exit_code = static_cast<int>(code), .rank = rank, .phase = "", .reason = "",
                        .message = "", .step = {}, .progress = latest.progress,
                        .checkpoint = latest.checkpoint});
  }
  return static_cast<int>(code);
}

std::string reason_of(ExitCode code) {
  switch (code) {
    case ExitCode::kBadInput: return "BadInput";
    case ExitCode::kPeersMissing: return "PeersMissing";
    case ExitCode::kPeerLost: return "PeerLost";
    case ExitCode::kVolume: return "Volume";
    case ExitCode::kNotFinite: return "NotFinite";
    default: return "Internal";
  }
}

}  // namespace

int run_train(const CommandLine& line) {
  const contract::ConfigResult config = read_configuration(line);
  if (line.print_config) {
    fmt::print("{}", contract::print_config(config));
    return 0;
  }
  handle_signals(under_mpirun());
  std::optional<WorkerEnv> env;
  if (contract::has_worker_env(lookup_environment)) env = contract::from_env(lookup_environment);
  int rank = 0;
  try {
    return train_rank(line, config.config, env, rank);
  } catch (const Error& error) {
    // MPI can't be closed by one rank, so a process that is one of several leaves without unwinding further.
    fmt::print(stderr, "coxswain-trainer: rank {}: {}\n", rank, error.what());
    std::fflush(nullptr);
    leave_message(env, {.exit_code = static_cast<int>(error.code()), .rank = rank, .phase = "",
                        .reason = reason_of(error.code()), .message = error.what(), .step = {},
                        .progress = {}, .checkpoint = {}});
    _exit(static_cast<int>(error.code()));
  }
}

}  // namespace coxswain
