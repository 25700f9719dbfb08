#include "trainer/launch/on_host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <map>
#include <optional>

#include "trainer/contract/printable.h"
#include "trainer/contract/worker/constants.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/contract/worker/ssh_command.h"
#include "trainer/launch/far_endpoint.h"
#include "trainer/launch/host_link.h"
#include "trainer/launch/output_copy.h"

namespace coxswain::launch {

namespace {

using contract::TerminationMessage;
using contract::WorkerEnv;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kBeatEvery{5'000};
constexpr milliseconds kOutputRest{20};  // for a reader that took nothing
constexpr std::size_t kMostWords = 300;

bool takes_output(int descriptor) {
  pollfd target{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return poll(&target, 1, 0) != 0;  // one that is broken takes everything, and loses it
}

// The worker, on this machine.
class HostWorker {
 public:
  HostWorker(const WorkerEnv& env, const WorkerOptions& options)
      : env_(env),
        options_(options),
        directory_(contract::worker_directory(env)),
        signals_({SIGTERM, SIGINT, SIGUSR1}),
        to_host_(contract::make_pipe()),
        from_host_(contract::make_pipe()),
        complaints_(contract::make_pipe()),
        ssh_(ssh_process()),
        link_(std::move(from_host_.out), std::move(to_host_.in), /*greeted=*/true) {
    for (auto* given : {&to_host_.out, &from_host_.in, &complaints_.in}) given->close();
    link_.send({FrameKind::kOrder, 0, to_json(order())});
    contract::write_whole_file(contract::host_file(directory_), options_.host);
    if (env_.role != contract::Role::kWorker || env_.index > 0) return;
    first_rank_.emplace();
    contract::write_whole_file(contract::endpoint_file(directory_),
                               std::to_string(first_rank_->port()));
  }

  TerminationMessage wait() {
    while (!end_ && !has_left()) {
      wait_for_news();
      while (const auto signal = signals_.next())
        if (*signal == SIGTERM) link_.send({FrameKind::kSave, 0, ""});
      beat();
      pass_question_on();
      link_.flush();
      listen_to_complaints();
      if (untold_.empty())
        for (Frame& frame : link_.receive()) untold_.push_back(std::move(frame));
      tell();
    }
    listen_to_complaints();
    return end_ ? *end_ : lost();
  }

 private:
  contract::ProcessOptions ssh_process() const {
    contract::ProcessOptions process;
    process.command = contract::ssh_command(
        options_.host, fmt::format("cd \"{}\" && LD_LIBRARY_PATH=$PWD/lib exec "
                                   "./coxswain-trainer hosted",
                                   options_.host_directory));
    process.stdin_fd = to_host_.out.get();
    process.stdout_fd = from_host_.in.get();
    process.stderr_fd = complaints_.in.get();
    return process;
  }

  HostOrder order() const {
    const auto text = [](const std::filesystem::path& file) {
      return contract::read_small_file(file, kMostFrameBody / 4).value_or("");
    };
    return {.environment = contract::load_environment(directory_),
            .command = options_.command,
            .config = text(env_.config),
            .hostfile = text(env_.hostfile),
            .key = text(env_.key),
            .wrote_on = options_.wrote_on};
  }

  bool has_left() { return link_.is_closed() && untold_.empty() && ssh_.end().has_value(); }

  void wait_for_news() {
    std::vector<int> descriptors{signals_.descriptor(), complaints_.out.get()};
    if (untold_.empty()) descriptors.push_back(link_.descriptor());
    if (link_.is_closed()) descriptors.push_back(ssh_.descriptor());
    if (first_rank_) descriptors.push_back(first_rank_->descriptor());
    const bool soon = !untold_.empty() || link_.waits();
    contract::wait_readable(descriptors, soon ? kOutputRest : kBeatEvery);
  }

  void beat() {
    if (Clock::now() < next_beat_) return;
    next_beat_ = Clock::now() + kBeatEvery;
    link_.send({FrameKind::kBeat, 0, ""});
  }

  void pass_question_on() {
    const auto question = first_rank_ ? first_rank_->next() : std::nullopt;
    if (question) link_.send({FrameKind::kAsk, question->number, question->path});
  }

  // As far as our reader takes it: beats go out meanwhile.
  void tell() {
    for (; !untold_.empty() && !end_; untold_.pop_front()) {
      const Frame& frame = untold_.front();
      const bool is_output = frame.kind == FrameKind::kOutput;
      if (is_output || frame.kind == FrameKind::kErrors) {
        const int target = is_output ? STDOUT_FILENO : STDERR_FILENO;
        if (!takes_output(target)) return;
        print(frame, target);
      }
      if (frame.kind == FrameKind::kReady) announce();
      if (frame.kind == FrameKind::kAnswer && first_rank_)
        first_rank_->answer(frame.rank, frame.body);
      if (frame.kind == FrameKind::kEnd) end_ = end_of(frame.body);
    }
  }

  std::optional<TerminationMessage> end_of(const std::string& text) const {
    auto end = contract::parse_termination_message(text);
    if (end && !end->message.empty()) end->message += fmt::format(" (on {})", options_.host);
    return end;
  }

  // To whoever watches this worker its ranks are this process.
  void announce() const {
    for (int local = 0; local < env_.slots; ++local)
      contract::announce_this_process(directory_, env_.index * env_.slots + local);
  }

  void print(const Frame& frame, int target) {
    const int place = frame.rank - env_.index * env_.slots;
    if (place < 0 || place >= env_.slots) return;
    auto file = files_.find(frame.rank);
    if (file == files_.end())
      file = files_.try_emplace(frame.rank, contract::output_file(directory_, frame.rank)).first;
    file->second.add(frame.body);
    for (std::size_t done = 0; done < frame.body.size();) {
      const ssize_t put = write(target, frame.body.data() + done, frame.body.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) break;  // nobody reads it: the file has it
      done += static_cast<std::size_t>(put);
    }
  }

  // Of ssh, of the host's shell and of `hosted`: shown, and the last line kept for the reason.
  void listen_to_complaints() {
    std::array<char, 1024> piece;
    for (ssize_t got = 1; complaints_.out.get() >= 0 && got > 0;) {
      got = read(complaints_.out.get(), piece.data(), piece.size());
      if (got > 0) complaint_.append(piece.data(), static_cast<std::size_t>(got));
      if (got == 0) complaints_.out.close();
    }
    for (std::size_t end = complaint_.find_first_of("\r\n"); end != std::string::npos;
         end = complaint_.find_first_of("\r\n")) {
      if (end > 0) last_words_ = printable(complaint_.substr(0, end), kMostWords);
      if (end > 0) fmt::print(stderr, "{}: {}\n", options_.host, last_words_);
      complaint_.erase(0, end + 1);
    }
  }

  TerminationMessage lost() {
    TerminationMessage end;
    end.exit_code = contract::kHostLost;
    end.reason = "HostLost";
    end.message = fmt::format("{} answers no more: {}", options_.host,
                              last_words_.empty() ? "its ssh ended" : last_words_);
    return end;
  }

  const WorkerEnv& env_;
  const WorkerOptions& options_;
  const std::filesystem::path directory_;
  contract::SignalQueue signals_;
  contract::Pipe to_host_;
  contract::Pipe from_host_;
  contract::Pipe complaints_;
  contract::ChildProcess ssh_;
  HostLink link_;
  std::optional<FarEndpoint> first_rank_;  // of worker 0
  std::deque<Frame> untold_;
  std::map<int, OutputFile> files_;  // by rank
  std::string complaint_;            // not whole yet
  std::string last_words_;
  Clock::time_point next_beat_ = Clock::now() + kBeatEvery;
  std::optional<TerminationMessage> end_;
};

}  // namespace

TerminationMessage run_on_host(const WorkerEnv& env, const WorkerOptions& options) {
  return HostWorker(env, options).wait();
}

}  // namespace coxswain::launch
