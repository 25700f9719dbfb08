#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <optional>

#include "trainer/contract/error.h"
#include "trainer/contract/worker/announced_ranks.h"
#include "trainer/contract/worker/http_endpoint.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/contract/worker/temporary_directory.h"
#include "trainer/launch/host_link.h"
#include "trainer/launch/on_host.h"
#include "trainer/launch/own_ranks.h"

namespace coxswain::launch {

namespace {

namespace fs = std::filesystem;
using contract::TerminationMessage;
using contract::WorkerEnv;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kOrderWithin{30'000};
constexpr milliseconds kSilence{30'000};  // six beats
constexpr milliseconds kReaderRest{20};
constexpr milliseconds kHostedTurn{1'000};
constexpr milliseconds kFirstRankAnswersWithin{1'000};
constexpr milliseconds kLastWords{5'000};
constexpr std::size_t kPipePiece = 4096;  // what a pipe that is ready takes at once (PIPE_BUF)
constexpr std::size_t kMostMark = 256;

// Waits for the order. Nothing: the other end is gone.
std::optional<HostOrder> take_order(HostLink& link, std::vector<Frame>& more) {
  const auto deadline = Clock::now() + kOrderWithin;
  while (!link.is_closed() && Clock::now() < deadline) {
    contract::wait_readable({link.descriptor()}, kHostedTurn);
    std::vector<Frame> frames = link.receive();
    if (frames.empty()) continue;
    const auto order = frames.front().kind == FrameKind::kOrder
                           ? parse_host_order(frames.front().body)
                           : std::nullopt;
    if (!order) throw Error(ExitCode::kInternal, "[host] what came is no order");
    more.assign(frames.begin() + 1, frames.end());
    return order;
  }
  return std::nullopt;
}

// The worker as the order tells, with its files in `directory` instead of where they lie there.
WorkerEnv take_up(const HostOrder& order, const fs::path& directory) {
  for (const auto& [name, value] : order.environment) setenv(name.c_str(), value.c_str(), 1);
  WorkerEnv env = contract::from_env(contract::lookup_environment);
  const auto put = [&](fs::path& place, const char* name, const std::string& text) {
    if (place.empty()) return;
    place = directory / name;
    contract::write_whole_file(place, text);
  };
  put(env.config, "training.yaml", order.config);
  put(env.hostfile, "hostfile", order.hostfile);
  put(env.key, "key", order.key);
  env.run_dir = directory;
  for (const auto& [name, value] : contract::to_env(env)) setenv(name.c_str(), value.c_str(), 1);
  return env;
}

WorkerOptions options_of(const HostOrder& order, const WorkerEnv& env) {
  WorkerOptions options;
  options.launcher = Launcher::kEnv;
  options.command = order.command;
  options.trainer = fs::read_symlink("/proc/self/exe");
  const auto config = order.environment.find("COXSWAIN_CONFIG");
  for (std::string& word : options.command) {
    if (word == "coxswain-trainer") word = options.trainer;
    if (config != order.environment.end() && word == config->second) word = env.config;
  }
  return options;
}

// Checkpoints that an earlier attempt wrote on another host are here only if both see the same file
// system; without them the run would begin anew without a word. A file there tells whose it is.
void check_checkpoints(const WorkerEnv& env, const std::string& wrote_on) {
  if (env.checkpoints.empty()) return;
  const fs::path mark = env.checkpoints / ".coxswain-hosts";
  if (wrote_on.empty()) return contract::write_whole_file(mark, env.job_uid);
  if (contract::read_small_file(mark, kMostMark) == env.job_uid) return;
  throw Error(ExitCode::kBadInput,
              fmt::format("[host] {} is not what it was on {}, where an earlier attempt wrote "
                          "checkpoints: give all hosts one file system there, or start again "
                          "when {} answers",
                          env.checkpoints.string(), wrote_on, wrote_on));
}

class HostedWorker {
 public:
  HostedWorker(const WorkerEnv& env, const WorkerOptions& options, HostLink& link,
               contract::SignalQueue& signals)
      : link_(link),
        signals_(signals),
        directory_(contract::worker_directory(env)),
        ranks_(env, options, /*captured=*/true),
        announced_({directory_}, env.slots) {}

  TerminationMessage wait(const std::vector<Frame>& before) {
    take(before);
    while (!ranks_.over() || awaits_output()) {
      wait_for_news();
      while (signals_.next()) leave();
      take(link_.receive());
      if (link_.is_closed() || Clock::now() > heard_ + kSilence) leave();
      link_.flush();
      relay();
      tell_when_ready();
      ranks_.look();
    }
    return ranks_.end();
  }

 private:
  void wait_for_news() {
    std::vector<int> descriptors = ranks_.descriptors();
    descriptors.insert(descriptors.end(), {signals_.descriptor(), link_.descriptor()});
    if (!link_.is_full())
      for (const auto& output : ranks_.outputs()) descriptors.push_back(output.source.get());
    const bool soon = link_.waits() || !announced_.complete() || ranks_.over();
    contract::wait_readable(descriptors, soon ? kReaderRest : kHostedTurn);
  }

  void take(const std::vector<Frame>& frames) {
    if (!frames.empty()) heard_ = Clock::now();
    for (const Frame& frame : frames) {
      if (frame.kind == FrameKind::kSave) ranks_.signal(SIGUSR1);
      if (frame.kind == FrameKind::kAsk)
        link_.send({FrameKind::kAnswer, frame.rank, ask_first_rank(frame.body)});
    }
  }

  // Of its endpoint, which answers at once or not at all.
  std::string ask_first_rank(const std::string& path) const {
    const auto port = contract::read_endpoint(directory_);
    if (!port) return "";
    return contract::http_get("127.0.0.1", *port, path, kFirstRankAnswersWithin, kMostFrameBody)
        .value_or("");
  }

  void leave() {
    if (left_) return;
    left_ = true;
    ranks_.signal(SIGTERM);
  }

  void tell_when_ready() {
    if (announced_.complete()) return;
    announced_.look();
    if (announced_.complete()) link_.send({FrameKind::kReady, 0, ""});
  }

  // Something that a rank started may hold its output open: not for long after the ranks' end.
  bool awaits_output() {
    if (!over_since_) over_since_ = Clock::now();
    const auto is_open = [](const auto& output) { return output.source.get() >= 0; };
    return !link_.is_closed() && Clock::now() < *over_since_ + kLastWords &&
           std::ranges::any_of(ranks_.outputs(), is_open);
  }

  void relay() {
    std::array<char, kPipePiece> piece;
    for (auto& output : ranks_.outputs()) {
      while (output.source.get() >= 0 && !link_.is_full()) {
        const ssize_t got = read(output.source.get(), piece.data(), piece.size());
        if (got == 0) output.source.close();
        if (got <= 0) break;
        link_.send({output.errors ? FrameKind::kErrors : FrameKind::kOutput, output.rank,
                    std::string(piece.data(), static_cast<std::size_t>(got))});
      }
    }
  }

  HostLink& link_;
  contract::SignalQueue& signals_;
  const fs::path directory_;
  OwnRanks ranks_;
  contract::AnnouncedRanks announced_;
  Clock::time_point heard_ = Clock::now();
  bool left_ = false;
  std::optional<Clock::time_point> over_since_;
};

TerminationMessage run(HostLink& link, contract::SignalQueue& signals) {
  std::vector<Frame> more;
  const auto order = take_order(link, more);
  if (!order) throw Error(ExitCode::kPeersMissing, "[host] no order came");
  const contract::TemporaryDirectory directory("coxswain-host");
  const WorkerEnv env = take_up(*order, directory.path());
  check_checkpoints(env, order->wrote_on);
  return HostedWorker(env, options_of(*order, env), link, signals).wait(more);
}

}  // namespace

int run_hosted() {
  contract::SignalQueue signals({SIGTERM, SIGINT, SIGHUP});
  // Not the descriptors themselves: what else prints here shall not come between frames.
  HostLink link(contract::FileDescriptor(dup(STDIN_FILENO)),
                contract::FileDescriptor(dup(STDOUT_FILENO)), /*greeted=*/false);
  link.send_bytes(kHostGreeting);
  TerminationMessage end;
  try {
    end = run(link, signals);
  } catch (const Error& error) {
    end.exit_code = static_cast<int>(error.code());
    end.phase = "Start";
    end.reason = "CannotStart";
    end.message = error.what();
  }
  link.send({FrameKind::kEnd, 0, contract::to_json(end)});
  for (const auto deadline = Clock::now() + kLastWords; link.waits() && Clock::now() < deadline;
       link.flush())
    contract::wait_readable({}, kReaderRest);
  return end.exit_code;
}

}  // namespace coxswain::launch
