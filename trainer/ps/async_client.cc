#include "trainer/ps/async_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/contract/error.h"

namespace coxswain::ps {

namespace {

constexpr std::size_t kMostSumsOnTheWay = 16;  // a step is done before the next but one is

}  // namespace

AsyncClient::AsyncClient(ClientOptions options, std::function<void(std::int64_t)> on_lease)
    : Client(options),
      worker_(options.worker),
      on_lease_(std::move(on_lease)),
      dealings_(static_cast<std::size_t>(num_servers())) {}

std::optional<Standing> AsyncClient::standing() const {
  if (standing_.end) return standing_;
  const auto counted = [this](bool begun) {
    return std::ranges::count(dealings_, std::optional(begun), &Dealings::has_begun);
  };
  if (standing_.fences > 0 && counted(true) == num_servers()) return standing_;
  const bool may_begin = worker_ == 0 && standing_.fences == 0;
  if (may_begin && counted(true) + counted(false) == num_servers()) return standing_;
  return std::nullopt;
}

void AsyncClient::attach(const Plan& plan, const WorkerArrays& arrays) {
  plan_ = plan;
  arrays_ = arrays;
}

bool AsyncClient::has_all() const {
  return std::ranges::all_of(dealings_, [](const Dealings& with) { return with.missing == 0; });
}

// Before all of a step is pushed, this worker lets the servers wait.
bool AsyncClient::waits_for(int server) const {
  return of(server).missing > 0 && (!is_push_ || is_finished_);
}

std::int64_t AsyncClient::floats_wanted(int server) const {
  switch (wanted_) {
    case Wanted::kNothing:
      return 0;
    case Wanted::kBegun:
      return 1;  // a word
    case Wanted::kWeights:
      return plan_->map.load(server);
    case Wanted::kSlots:
      return plan_->map.load(server) * plan_->num_slots;
  }
  return 0;
}

void AsyncClient::want(Wanted wanted) {
  wanted_ = wanted;
  is_push_ = is_finished_ = false;
  for (int server = 0; server < num_servers(); ++server) {
    of(server).missing = floats_wanted(server);
    of(server).pushed.clear();
  }
}

void AsyncClient::hand_over(std::int64_t step, std::int64_t update_count) {
  step_ = step;
  beginning_ = encode(Beginning{plan_->layout, step, update_count});
  want(Wanted::kBegun);
  for (int server = 0; server < num_servers(); ++server) {
    of(server).version = version_of(update_count);
    ask(server);
  }
}

void AsyncClient::pull(std::int64_t step) {
  step_ = step;
  want(Wanted::kWeights);
  for (int server = 0; server < num_servers(); ++server) ask(server);
}

void AsyncClient::ask_slots() {
  want(Wanted::kSlots);
  for (int server = 0; server < num_servers(); ++server) ask(server);
}

void AsyncClient::begin(std::int64_t step) {
  step_ = step;
  want(Wanted::kWeights);
  is_push_ = true;
}

void AsyncClient::push(std::int64_t offset, std::span<const std::byte> bytes) {
  const int server = plan_->map.cut(offset, 1)[0].server;
  of(server).pushed.push_back({offset, bytes});
  say(server, {.what = Say::kPush, .step = step_, .offset = offset}, bytes);
}

void AsyncClient::finish_push(const std::optional<optim::UpdateStep>& terms) {
  is_finished_ = true;
  terms_.reset();
  if (terms) terms_ = encode(*terms);
  for (int server = 0; server < num_servers(); ++server) say_finished(server);
}

void AsyncClient::say_finished(int server) {
  const Message message{.what = Say::kPushed, .step = step_, .part = of(server).version};
  if (!terms_) return say(server, message);
  say(server, message, std::as_bytes(std::span(*terms_)));
}

// Over a new connection, too: what it had of a push is forgotten with the old one.
void AsyncClient::ask(int server) {
  Dealings& with = of(server);
  if (with.missing == 0) return;
  with.missing = floats_wanted(server);
  switch (wanted_) {
    case Wanted::kNothing:
      return;
    case Wanted::kBegun:
      return say_state(server, *plan_, arrays_, step_, beginning_);
    case Wanted::kSlots:
      return say(server, {.what = Say::kAskSlots, .step = step_});
    case Wanted::kWeights:
      break;
  }
  if (!is_push_) return say(server, {.what = Say::kPull, .step = step_});
  for (const Pushed& block : with.pushed)
    say(server, {.what = Say::kPush, .step = step_, .offset = block.offset}, block.bytes);
  if (is_finished_) say_finished(server);
}

void AsyncClient::server_joined(int server) {
  ask(server);
  if (server != 0) return;
  if (fence_) say_fence();
  if (cut_asked_) cut_now(*cut_asked_);
  for (int i = 0; i < leases_asked_; ++i) say(0, {.what = Say::kAskLease});
  if (end_) end(*end_);
}

void AsyncClient::ask_lease() {
  ++leases_asked_;
  say(0, {.what = Say::kAskLease});
}

void AsyncClient::done(std::int64_t step, const StepSums& sums) {
  if (sums_said_.size() == kMostSumsOnTheWay) sums_said_.pop_front();
  const StepSums& said = sums_said_.emplace_back(sums);
  say(0, {.what = Say::kDone, .step = step}, std::as_bytes(std::span(&said, 1)));
}

void AsyncClient::cut_now(bool stop) {
  cut_asked_ = stop || cut_asked_.value_or(false);
  say(0, {.what = Say::kCutNow, .part = *cut_asked_ ? 1 : 0});
}

void AsyncClient::set_fence(int fence, std::int64_t step, const std::string& note) {
  fence_ = {fence, step, note};
  cut_asked_.reset();
  say_fence();
}

void AsyncClient::say_fence() {
  say(0, {.what = Say::kFence, .step = fence_->step, .part = fence_->number},
      std::as_bytes(std::span(fence_->note)));
}

void AsyncClient::end(bool saved) {
  end_ = saved;
  say(0, {.what = Say::kEnd, .part = saved ? 1 : 0});
}

std::optional<Event> AsyncClient::take_event() {
  if (events_.empty()) return std::nullopt;
  const Event event = events_.front();
  events_.pop_front();
  return event;
}

std::optional<std::span<std::byte>> AsyncClient::place_of(int server, const Message& message) {
  const auto totals = std::as_writable_bytes(std::span(&totals_, 1));
  switch (message.what) {
    case Say::kStanding:
      if (server != 0) return std::nullopt;
      if (message.bytes > kMaxNote) break;
      standing_.note.resize(static_cast<std::size_t>(message.bytes));
      return std::as_writable_bytes(std::span(standing_.note));
    case Say::kLease:
    case Say::kCut:
      if (server != 0 || message.bytes != std::ssize(totals)) break;
      return totals;
    case Say::kBegun:
    case Say::kHeld:
    case Say::kEnd:
      return std::nullopt;
    case Say::kWeights:
      if (of(server).missing == 0 || message.step != step_) return std::nullopt;
      if (wanted_ != Wanted::kWeights || waits_for(server) == false) break;
      return piece_of(*plan_, arrays_.weights, server, message);
    case Say::kSlots:
      if (wanted_ != Wanted::kSlots || message.part >= plan_->num_slots) break;
      return piece_of(*plan_, arrays_.slots[static_cast<std::size_t>(message.part)], server,
                      message);
    default:
      break;
  }
  refuse(server, message);
}

void AsyncClient::take(int server, const Message& message) {
  std::int64_t& missing = of(server).missing;
  switch (message.what) {
    case Say::kStanding:
      return take_standing(server, message);
    case Say::kLease:
      leases_asked_ = std::max(0, leases_asked_ - 1);
      held_by_.reset();
      if (on_lease_) on_lease_(message.step);
      events_.push_back({Event::Kind::kLease, message.step, false, totals_});
      return;
    case Say::kHeld:
      held_by_.reset();
      if (message.part != worker_) held_by_ = message.part;
      return;
    case Say::kCut:
      if (message.part <= std::exchange(last_cut_, message.part)) return;  // it is told again
      events_.push_back({Event::Kind::kCut, message.step, message.offset == 1, totals_});
      return;
    case Say::kEnd:
      standing_.end = message.part == 1;
      events_.push_back({Event::Kind::kEnd, 0, message.part == 1, totals_});
      return;
    case Say::kBegun:
      if (wanted_ == Wanted::kBegun) missing = 0;
      return;
    case Say::kWeights:
      if (message.step == step_) of(server).version = message.part;
      [[fallthrough]];
    default:
      if (message.step == step_) missing = std::max<std::int64_t>(0, missing - floats_of(message));
  }
}

void AsyncClient::take_standing(int server, const Message& message) {
  const bool has_begun = message.part == 1;
  if (of(server).has_begun == true && !has_begun)
    throw Error(ExitCode::kPeerLost,
                fmt::format("[ps] server {} has lost what it held of the training", server));
  of(server).has_begun = has_begun;
  if (server == 0) standing_.fences = static_cast<int>(message.step);
}

}  // namespace coxswain::ps
