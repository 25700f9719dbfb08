#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/build.h"
#include "trainer/comm/nccl/nccl_communicator.h"
#include "trainer/commands.h"
#include "trainer/communicators.h"
#include "trainer/contract/config/config_reader.h"
#include "trainer/contract/printable.h"
#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/contract/worker/termination_message.h"
#include "trainer/gpu_affinity.h"
#include "trainer/gpu_choice.h"
#include "trainer/reports.h"
#include "trainer/train/all_reduce_strategy.h"
#include "trainer/train/async_loop.h"
#include "trainer/train/parameter_server_strategy.h"
#include "trainer/train/training_loop.h"
#include "trainer/unexpected_error.h"

namespace coxswain {

namespace {

constexpr int kServerComesBack = 120;       // seconds
constexpr std::size_t kMostOfError = 2000;  // of an error, on the terminal and in its message

using contract::lookup_environment;
using contract::WorkerEnv;

std::atomic<bool> stop_requested = false;
std::atomic<bool> world_is_whole = false;
train::SaveGate saves;

// What NCCL runs on this rank's GPU: to be ended before the process is.
class GpuSums {
 public:
  void begin(std::function<bool()> abort) {
    const std::lock_guard lock(mutex_);
    abort_ = std::move(abort);
  }
  void end() {
    std::unique_lock lock(mutex_);
    const auto abort = std::exchange(abort_, nullptr);
    lock.unlock();
    if (abort && !abort()) fmt::print(stderr, "coxswain-trainer: NCCL did not let go of the GPU\n");
  }

 private:
  std::mutex mutex_;
  std::function<bool()> abort_;
};
GpuSums gpu_sums;

constexpr std::chrono::seconds kSaveLimit{300};  // as long as a save may take

// Ends the process without unwinding, since one rank alone can't close MPI; on any thread. A save
// under way comes first: it is of a step that all ranks agreed on. None comes later: once sums were
// ended, what lies on a GPU is no step's.
[[noreturn]] void leave_at_once(ExitCode code) {
  if (!saves.close(kSaveLimit)) {
    fmt::print(stderr, "coxswain-trainer: a save did not end within {} s: left without it\n",
               kSaveLimit.count());
  }
  gpu_sums.end();
  _exit(static_cast<int>(code));
}

// Takes the signals of the whole process on a thread of its own. Compute threads must not be
// interrupted: with a handler, up to one in ten stops ended with a corrupt heap inside a oneDNN
// matrix product, and none without. To be called before any other thread starts, which inherits
// the mask.
//
// To one of many ranks SIGUSR1 asks to save and leave, and SIGTERM says that another one is gone:
// no collective can help any more. Before the ranks have met there is nothing to save, and those
// asked to leave would wait for others that have left. Alone, any wish to end is a wish to save
// first.
void take_signals(bool is_one_of_many) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) sigaddset(&signals, signal);
  if (!contract::is_ignored(SIGHUP)) sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, is_one_of_many] {
    for (int signal = 0; sigwait(&signals, &signal) == 0;) {
      if (is_one_of_many && signal == SIGTERM) leave_at_once(ExitCode::kPeerLost);
      if (is_one_of_many && signal == SIGUSR1 && !world_is_whole) leave_at_once(ExitCode::kSaved);
      if (!is_one_of_many || signal == SIGUSR1) stop_requested.store(true);
    }
  }).detach();
}

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

std::string reason_of(ExitCode code) {
  switch (code) {
    case ExitCode::kBadInput:
      return "BadInput";
    case ExitCode::kPeersMissing:
      return "PeersMissing";
    case ExitCode::kPeerLost:
      return "PeerLost";
    case ExitCode::kDevice:
      return "Device";
    case ExitCode::kVolume:
      return "Volume";
    case ExitCode::kNotFinite:
      return "NotFinite";
    default:
      return "Internal";
  }
}

// One rank's process, from its environment to its exit code.
class RankProcess {
 public:
  explicit RankProcess(const CommandLine& line) : line_(line) {
    if (contract::has_worker_env(lookup_environment)) env_ = contract::from_env(lookup_environment);
  }

  bool is_one_of_many() const { return under_mpirun() || among_tcp_ranks(env_); }

  int run(const contract::TrainerConfig& config) {
    try {
      return static_cast<int>(train(config));
    } catch (const Error& error) {
      leave(error, reason_of(error.code()));
    } catch (const std::bad_alloc&) {
      leave({ExitCode::kInternal, "[train] out of memory: lower batchSize, or give it more"},
            "OutOfMemory");
    } catch (const std::exception& error) {
      leave({ExitCode::kInternal, "[train] " + words_of(error)}, reason_of(ExitCode::kInternal));
    }
  }

 private:
  ExitCode train(const contract::TrainerConfig& config) {
    train::TrainOptions options = make_train_options(config, env_);
    take_network(config, options);
    if (has_servers() && options.rule.statistic_momentum != optim::UpdateRule{}.statistic_momentum)
      throw Error(ExitCode::kBadInput,
                  "[train] the network's BatchNorms have a momentum of their own, which parameter "
                  "servers don't know: write strategy: AllReduce in a job");
    options.threads = threads_per_rank(config, ranks_on_this_machine(env_));
    options.data_workers = loader_threads(config, ranks_on_this_machine(env_));
    auto communicator = make_communicator(
        config, env_, [this](const Error& lost) { leave(lost, reason_of(lost.code())); });
    world_is_whole.store(true);
    const bool apart = trains_apart(config, env_);
    rank_ = apart ? rank_of_this_process() : communicator->rank();
    const std::optional<int> gpu = take_gpu(config, *communicator, options.notes);
    if (gpu) bind_beside(*gpu, options.notes);
    if (apart && rank_ > 0) options.checkpoint.directory.clear();  // worker 0 alone saves
    const auto training = open_training_set(config);
    const auto test = open_test_set(config);
    const auto backend = make_backend(config, options.threads, gpu);
    if (gpu && communicator->size() > 1)
      communicator = over_gpus(config, std::move(communicator), *backend);
    if (rank_ == 0) {
      reports_ =
          std::make_unique<Reports>(line_.log_format, env_, config, options.checkpoint.directory);
    }
    Silent silent;
    train::Observer& observer = reports_ ? reports_->observer() : silent;
    train::Collaborators with{*backend, *training, test.get(),     std::move(communicator),
                              nullptr,  observer,  stop_requested, saves};
    if (!apart) with.strategy = strategy(config);
    const auto result = apart ? train::train_async(options, std::move(with), async_access(config))
                              : train::train(options, std::move(with));
    const auto code = result == train::Result::kSucceeded ? ExitCode::kDone : ExitCode::kSaved;
    if (reports_) {
      leave_message(code, "", "");
      reports_->write_page();
    }
    return code;
  }

  bool has_servers() const { return env_.has_value() && !env_->servers.empty(); }

  std::optional<int> take_gpu(const contract::TrainerConfig& config,
                              comm::Communicator& communicator, std::vector<std::string>& notes) {
    if (has_servers()) {
      if (config.device != Device::kCuda) return std::nullopt;
      throw Error(ExitCode::kBadInput,
                  "[config] device: cuda trains with strategy: AllReduce alone in this version");
    }
    const auto gpu =
        gpu_of_rank(config, ranks_on_this_machine(env_), place_on_this_machine(env_, rank_.load()));
    if (config.device != Device::kAuto) return gpu;
    require_one_kind(tell_all(communicator, gpu.has_value()));
    notes.push_back(gpu ? "device: auto: each rank computes on a GPU"
                        : "device: auto: no GPU is to be seen: on the CPU");
    return gpu;
  }

  // Before the backend takes memory of the host.
  static void bind_beside(int gpu, std::vector<std::string>& notes) {
    const DevicePlace place = place_of_device(backend::pci_id_of(gpu));
    const auto cores = cores_beside(place, allowed_cores());
    if (cores && bind_to(*cores))
      notes.push_back(fmt::format("bound to cores {}, beside its GPU on NUMA node {}",
                                  to_text(*cores), place.numa_node));
  }

  // What each rank says, in order.
  static std::vector<bool> tell_all(comm::Communicator& communicator, bool own) {
    std::vector<float> said(static_cast<std::size_t>(communicator.size()), 0.0F);
    said[static_cast<std::size_t>(communicator.rank())] = own ? 1.0F : 0.0F;
    communicator.wait(communicator.all_reduce_sum(comm::in_rank_order(communicator.size()),
                                                  {{std::span(said)}, 0}));
    std::vector<bool> result;
    for (const float one : said) result.push_back(one != 0);
    return result;
  }

  std::unique_ptr<comm::Communicator> over_gpus(const contract::TrainerConfig& config,
                                                std::unique_ptr<comm::Communicator> host,
                                                backend::Backend& backend) {
    comm::NcclOptions options;
    options.fixed_order = config.reproducible != Reproducible::kNone;
    options.on_broken = [this](const Error& error) { leave(error, reason_of(error.code())); };
    auto ranks = comm::make_nccl_communicator(std::move(host), backend, std::move(options));
    gpu_sums.begin(std::move(ranks.abort));
    return std::move(ranks.communicator);
  }

  train::StrategyFactory strategy(const contract::TrainerConfig& config) const {
    if (!has_servers()) return train::make_all_reduce_strategy;
    return train::make_parameter_server_strategy(server_access(config));
  }

  train::ServerAccess server_access(const contract::TrainerConfig& config) const {
    train::ServerAccess access;
    access.network = network_options(config, *env_, rank_);
    access.client.worker = rank_;
    access.client.servers = server_addresses(*env_);
    // What one of several held is not lost with it: time for another to come in its place.
    if (env_->servers.size() > 1) access.client.away_deadline = kServerComesBack;
    access.client.startup_deadline = env_->startup_seconds * 3 / 4;
    access.client.answer_deadline = static_cast<int>(config.step_deadline_seconds);
    return access;
  }

  train::AsyncAccess async_access(const contract::TrainerConfig& config) const {
    train::AsyncAccess access;
    access.servers = server_access(config);
    access.workers = env_->world_size;
    access.patience = std::chrono::seconds(env_->startup_seconds);
    access.on_waiting = [rank = rank_.load()](const std::string& slowest) {
      fmt::print(stderr, "coxswain-trainer: rank {}: waits for {}, which is behind\n", rank,
                 slowest);
    };
    return access;
  }

  // Called by whichever thread notices first.
  [[noreturn]] void leave(const Error& error, const std::string& reason) {
    if (leaving_.test_and_set()) pause();
    const std::string text = printable(error.what(), kMostOfError);
    fmt::print(stderr, "coxswain-trainer: rank {}: {}\n", rank_.load(), text);
    std::fflush(nullptr);
    leave_message(error.code(), reason, text);
    if (reports_) reports_->leave(error.code(), reason, text);
    leave_at_once(error.code());
  }

  void leave_message(ExitCode code, const std::string& reason, const std::string& text) {
    if (!env_.has_value()) return;
    contract::TerminationMessage message;
    message.exit_code = static_cast<int>(code);
    message.rank = rank_;
    message.reason = reason;
    message.message = text;
    if (reports_) {
      const contract::ProgressDocument latest = reports_->latest();
      message.progress = latest.progress;
      message.checkpoint = latest.checkpoint;
    }
    std::ofstream(contract::command_message_file(contract::worker_directory(*env_), rank_))
        << contract::to_json(message);
  }

  const CommandLine& line_;
  std::optional<WorkerEnv> env_;
  std::atomic<int> rank_ = 0;
  std::unique_ptr<Reports> reports_;  // rank 0
  std::atomic_flag leaving_;
};

}  // namespace

int run_train(const CommandLine& line) {
  const contract::ConfigResult config = read_configuration(line);
  if (line.print_config) {
    fmt::print("{}", contract::print_config(config));
    return 0;
  }
  RankProcess process(line);
  take_signals(process.is_one_of_many());
  return process.run(config.config);
}

}  // namespace coxswain
