#include "trainer/comm/progress_thread.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <map>
#include <thread>

namespace coxswain::comm {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Exchanges in progress at once: while one is added up, the next ones travel. None begins that far
// ahead of one that is not done: a message of it may lie before one of the other's on a connection,
// and waits there until its receiver has begun it too.
constexpr std::int64_t kWindow = 8;
constexpr std::size_t kBroadcastChunk = 1U << 20;
constexpr std::int64_t kWorthMachines = 4096;  // floats

// How the thread waits. While the caller computes, the core is the caller's: a nap after each poll
// that moved nothing. While the caller waits, it polls, where the wire yields when nothing moves;
// then it sleeps in between, the longer the longer it has waited, so that a nap adds little to the
// wait.
constexpr auto kSpin = 2ms;
constexpr std::chrono::nanoseconds kShortestNap = 50us;
constexpr std::chrono::nanoseconds kLongestNap = 1ms;
constexpr int kNapShare = 40;
constexpr unsigned long kTimerSlackNs = 1000;  // naps as short as asked: the default adds 50 us
constexpr auto kIdleNap = 5ms;                 // nothing asked: only heartbeats to hear
constexpr auto kCheckInterval = 10ms;

constexpr auto kLateAtLeast = 1s;
constexpr int kLateIntervals = 20;

// Resource. One rank's exchanges in order, on an open wire.
class Progress {
 public:
  Progress(Wire& wire, const WiredOptions& options, Mailbox& mailbox)
      : wire_(wire),
        options_(options),
        mailbox_(mailbox),
        machines_(wire.machines()),
        beat_interval_(std::min<std::chrono::nanoseconds>(1s, options.peer_deadline / 4)),
        liveness_(wire.rank(), wire.size(), options.peer_deadline, Clock::now()) {}

  // Until the wire is closed, a peer is lost, or a stop is asked for.
  void run(const std::stop_token& stop);

 private:
  void take_requests();
  void enqueue(const Mailbox::Asked& asked);
  std::unique_ptr<Exchange> sum_of(const SumRequest& sum, HostReduction segment);
  void add(Ticket ticket, std::unique_ptr<Exchange> exchange);
  bool start_exchanges();
  bool move_data();
  void retire_done();
  void send_beats(Clock::time_point now);
  bool all_alive(Clock::time_point now);
  bool judge_late(Clock::time_point now);
  void measure_interval(Clock::time_point now);
  void rest(bool moved);

  struct Running {
    Ticket ticket = 0;
    std::unique_ptr<Exchange> exchange;
    Clock::time_point started;
  };

  Wire& wire_;
  const WiredOptions& options_;
  Mailbox& mailbox_;
  const std::vector<int> machines_;  // by rank
  std::chrono::nanoseconds beat_interval_;
  Liveness liveness_;

  Staging staging_;  // outlives the exchanges
  std::int64_t next_number_ = 0;
  std::deque<Running> waiting_;
  std::deque<Running> running_;
  std::map<Ticket, int> unfinished_;  // exchanges of a ticket
  std::optional<Ticket> close_ticket_;

  std::optional<int> ended_;  // a peer
  Clock::time_point last_moved_ = Clock::now();
  Clock::time_point last_check_ = {};
  Clock::time_point last_beat_ = {};

  std::optional<Clock::time_point> last_sum_;
  std::chrono::nanoseconds usual_interval_ = 0ns;
  std::optional<int> reported_late_;
};

void Progress::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    take_requests();
    const bool started = start_exchanges();
    const bool moved = move_data();
    retire_done();
    if (close_ticket_ && running_.empty() && waiting_.empty()) {
      wire_.close();
      mailbox_.complete(*close_ticket_);
      return;
    }
    const auto now = Clock::now();
    if (now - last_check_ > kCheckInterval) {
      last_check_ = now;
      send_beats(now);
      if (!all_alive(now) || !judge_late(now)) return;
    }
    rest(started || moved);
  }
}

void Progress::take_requests() {
  if (std::ssize(waiting_) >= kWindow) return;
  for (const auto& asked : mailbox_.take()) enqueue(asked);
}

void Progress::enqueue(const Mailbox::Asked& asked) {
  if (const auto* sum = std::get_if<SumRequest>(&asked.request)) {
    measure_interval(Clock::now());
    if (sum->reduction.parts[0].empty()) mailbox_.complete(asked.ticket);
    for (HostReduction& segment : segments_of(*sum->plan, sum->reduction)) {
      add(asked.ticket, sum_of(*sum, std::move(segment)));
    }
    return;
  }
  if (const auto* broadcast = std::get_if<BroadcastRequest>(&asked.request)) {
    if (broadcast->bytes.empty()) mailbox_.complete(asked.ticket);
    for (std::size_t at = 0; at < broadcast->bytes.size(); at += kBroadcastChunk) {
      const std::size_t length = std::min(kBroadcastChunk, broadcast->bytes.size() - at);
      add(asked.ticket, make_broadcast_exchange(next_number_, broadcast->bytes.subspan(at, length),
                                                broadcast->root));
    }
    return;
  }
  if (std::holds_alternative<BarrierRequest>(asked.request)) {
    add(asked.ticket, make_barrier_exchange(next_number_));
    return;
  }
  close_ticket_ = asked.ticket;
}

// By way of one rank a machine where that sends less between machines, and it is enough to be worth
// two more messages one after the other.
std::unique_ptr<Exchange> Progress::sum_of(const SumRequest& sum, HostReduction segment) {
  const int num_machines = *std::ranges::max_element(machines_) + 1;
  const bool shares = num_machines > 1 && num_machines < std::ssize(machines_);
  if (shares && segment.codec == nullptr && std::ssize(segment.parts[0]) >= kWorthMachines)
    return make_machine_sum_exchange(next_number_, sum.plan, machines_, std::move(segment),
                                     staging_);
  return make_sum_exchange(next_number_, sum.plan, std::move(segment), staging_);
}

void Progress::add(Ticket ticket, std::unique_ptr<Exchange> exchange) {
  ++next_number_;
  ++unfinished_[ticket];
  waiting_.push_back({ticket, std::move(exchange), {}});
}

bool Progress::start_exchanges() {
  bool started = false;
  const auto number = [](const std::deque<Running>& of) { return of.front().exchange->number(); };
  while (!waiting_.empty() && (running_.empty() || number(waiting_) - number(running_) < kWindow)) {
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    running_.back().started = Clock::now();
    running_.back().exchange->start(wire_);
    started = true;
  }
  return started;
}

bool Progress::move_data() {
  const News news = wire_.poll();
  for (const MessageId id : news.finished) {
    const auto exchange = std::find_if(running_.begin(), running_.end(), [&](const Running& r) {
      return r.exchange->number() == exchange_of(id);
    });
    exchange->exchange->finished(wire_, id);
  }
  if (!news.beats.empty()) {
    const auto now = Clock::now();
    for (const int rank : news.beats) liveness_.heard(rank, now);
  }
  if (!news.ended.empty()) ended_ = news.ended.front();
  return !news.finished.empty();
}

void Progress::retire_done() {
  for (auto running = running_.begin(); running != running_.end();) {
    if (!running->exchange->done()) {
      ++running;
      continue;
    }
    const Ticket ticket = running->ticket;
    running = running_.erase(running);
    const auto left = unfinished_.find(ticket);
    if (--left->second > 0) continue;
    unfinished_.erase(left);
    mailbox_.complete(ticket);
  }
}

void Progress::send_beats(Clock::time_point now) {
  if (now - last_beat_ < beat_interval_) return;
  last_beat_ = now;
  wire_.send_beats();
}

bool Progress::all_alive(Clock::time_point now) {
  auto silent = liveness_.check(now);
  if (ended_) silent = Liveness::Silent{.rank = *ended_, .seconds = 0};
  if (!silent) return true;
  mailbox_.lost(*silent);
  if (options_.on_lost) {
    options_.on_lost(PeerLost(silent->rank, silent->seconds, "noticed by its heartbeat"));
  }
  return false;
}

void Progress::measure_interval(Clock::time_point now) {
  if (last_sum_) {
    const std::chrono::nanoseconds interval = now - *last_sum_;
    usual_interval_ = usual_interval_ == 0ns ? interval : (9 * usual_interval_ + interval) / 10;
  }
  last_sum_ = now;
}

// A peer that lives but does not come: told of once, and given up beyond the step's deadline. One
// that may itself be kept waiting is given longer, so that those who know who is late speak first.
bool Progress::judge_late(Clock::time_point now) {
  const auto late = running_.empty() ? std::nullopt : running_.front().exchange->waits_for();
  const bool is_direct = late && late->distance == 0;
  if (!is_direct || reported_late_ != late->rank) reported_late_.reset();
  if (!late) return true;
  const std::chrono::nanoseconds waited = now - running_.front().started;
  const double seconds = std::chrono::duration<double>(waited).count();
  if (waited >= options_.step_deadline + late->distance * options_.peer_deadline) {
    const Error given_up(
        ExitCode::kPeerLost,
        fmt::format("[comm] rank {} lives, but has kept the others waiting for {:.0f} s "
                    "(stepDeadlineSeconds){}",
                    late->rank, seconds,
                    is_direct ? "" : ": it does not go on, or a rank that it waits for"));
    mailbox_.broken(given_up.code(), given_up.what());
    if (options_.on_given_up) options_.on_given_up(given_up);
    return false;
  }
  const auto limit =
      std::max<std::chrono::nanoseconds>(kLateAtLeast, kLateIntervals * usual_interval_);
  if (!is_direct || reported_late_ || waited < limit) return true;
  reported_late_ = late->rank;
  if (options_.on_late) options_.on_late(seconds, late->rank);
  return true;
}

void Progress::rest(bool moved) {
  if (running_.empty()) {
    mailbox_.await_request(kIdleNap);
    last_moved_ = Clock::now();
    return;
  }
  const auto now = Clock::now();
  if (moved) last_moved_ = now;
  const std::chrono::nanoseconds waited = now - last_moved_;
  if (moved || (waited < kSpin && mailbox_.caller_waits())) return;
  std::this_thread::sleep_for(std::clamp(waited / kNapShare, kShortestNap, kLongestNap));
}

}  // namespace

void run_communication(std::stop_token stop, const OpenWire& open, const WiredOptions& options,
                       Mailbox& mailbox) {
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  try {
    const std::unique_ptr<Wire> wire = open();
    mailbox.opened(wire->rank(), wire->size());
    Progress(*wire, options, mailbox).run(stop);
  } catch (const Error& error) {
    mailbox.broken(error.code(), error.what());
  } catch (const std::exception& error) {
    mailbox.broken(ExitCode::kInternal, std::string("[comm] ") + error.what());
  }
  mailbox.exited();
}

}  // namespace coxswain::comm
