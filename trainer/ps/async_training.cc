#include "trainer/ps/async_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "trainer/contract/error.h"
#include "trainer/ps/async_copy.h"

namespace coxswain::ps {

namespace {

template <typename Value>
Value value_of(std::span<const std::byte> bytes) {
  Value value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// As many bytes as the message must have; nullopt: as many as it likes, up to a limit.
std::int64_t most_bytes(Say what) {
  switch (what) {
    case Say::kFence:
      return kMaxNote;
    case Say::kPushed:
      return sizeof(Terms);
    case Say::kDone:
      return sizeof(StepSums);
    default:
      return 0;
  }
}

}  // namespace

AsyncTraining::AsyncTraining(ServerOptions server, AsyncOptions options)
    : CopiedServer(std::move(server), options.num_slots), options_(std::move(options)) {
  CoordinatorOutbox& outbox = *this;
  if (index() == 0) coordinator_.emplace(options_.staleness, outbox);
}

bool AsyncTraining::may_say(const Peer& peer, const Message& message) const {
  switch (message.what) {
    case Say::kPush:
    case Say::kPushed:
    case Say::kPull:
      return has_begun();
    case Say::kAskSlots:
      return peer.leads() && has_begun();
    case Say::kAskLease:
    case Say::kCutNow:
      return coordinator_ && has_begun();
    case Say::kDone:
      return coordinator_ && has_begun() && message.bytes == sizeof(StepSums);
    case Say::kFence:
    case Say::kEnd:
      return coordinator_ && has_begun() && peer.leads();
    default:
      return false;
  }
}

std::optional<std::span<std::byte>> AsyncTraining::place_of(Peer& peer, const Message& message) {
  if (!peer.is_worker()) return place_from_server(peer, message);
  if (message.what == Say::kBeginning || message.what == Say::kState)
    return place_of_common(peer, message);
  if (is_coming_back()) return std::nullopt;
  if (!may_say(peer, message)) refuse(peer, message, "that is not its part, or not yet");
  if (message.what == Say::kPush) return place_of_push(peer, message, *machine_, *form_);
  return scratch(peer, message, most_bytes(message.what));
}

std::optional<std::span<std::byte>> AsyncTraining::place_from_server(Peer& peer,
                                                                     const Message& message) {
  if (message.what == Say::kMinutes && peer.hello.rank == 0 && previous() == 0 &&
      copy_of_previous())
    return scratch(peer, message, kMaxMinutes);
  if (message.what == Say::kNoted && peer.hello.rank == next() && is_noting_)
    return scratch(peer, message, 0);
  return place_of_common(peer, message);
}

void AsyncTraining::take(Peer& peer, const Message& message) {
  switch (message.what) {
    case Say::kMinutes:
      static_cast<AsyncCopy&>(*copy_of_previous()).set_minutes(peer.scratch);
      return say_to_server(previous(), {.what = Say::kNoted});
    case Say::kNoted:
      is_noting_ = false;
      tell(noting_);
      return tell_noted();
    case Say::kPush:
      return take_push(peer, message, *machine_, *form_);
    default:
      if (!peer.is_worker()) return take_common(peer, message);
      take_from_worker(peer, message);
      tell_noted();
  }
}

void AsyncTraining::take_from_worker(Peer& peer, const Message& message) {
  const int worker = peer.hello.rank;
  switch (message.what) {
    case Say::kPushed:
      return take_pushed(peer, message);
    case Say::kPull:
      return machine_->pull(worker, message.step);
    case Say::kAskSlots:
      return say_slots(worker, message.step, machine_->shard());
    case Say::kAskLease:
      return coordinator_->asks_lease(worker);
    case Say::kDone:
      return take_done(peer, message);
    case Say::kCutNow:
      return coordinator_->cut_now(message.part == 1);
    case Say::kFence:
      return take_fence(peer, message);
    case Say::kEnd:
      return coordinator_->end(message.part == 1);
    default:
      return take_common(peer, message);
  }
}

void AsyncTraining::make_machine(const Plan& plan) {
  AsyncOutbox& outbox = *this;
  machine_ = std::make_unique<AsyncServer>(plan, index(), options_.rule, options_.window, outbox);
  form_.emplace(plan.layout, options_.codec);
}

void AsyncTraining::start_machine(const Beginning& position, std::span<const std::byte> also) {
  const StepSet done = also.empty() ? StepSet(position.step) : decode_steps(also);
  machine_->start(done, position.update_count);
  if (!coordinator_) return;
  if (also.empty()) return coordinator_->begin(position.step);
  coordinator_->restore(decode_minutes(also));
}

Beginning AsyncTraining::position() {
  return {beginning().layout, machine_->done().size(), machine_->update_count()};
}

Bytes AsyncTraining::also() {
  Bytes bytes = encode(machine_->done());
  if (!coordinator_) return bytes;
  told_minutes_ = encode(coordinator_->minutes());
  bytes.insert(bytes.end(), told_minutes_.begin(), told_minutes_.end());
  return bytes;
}

std::unique_ptr<Copy> AsyncTraining::make_copy(const Plan& plan, int server,
                                               const Beginning& beginning) {
  return std::make_unique<AsyncCopy>(plan, server, options_.rule, beginning);
}

void AsyncTraining::copy_holds(std::optional<std::int64_t> steps) {
  if (!steps) {
    told_terms_.clear();
    is_noting_ = false;
    noting_.insert(noting_.end(), tellings_.begin(), tellings_.end());
    tellings_ = std::exchange(noting_, {});
  } else {
    copied_ = *steps;
  }
  machine_->copy_holds(steps);
  tell_noted();
}

void AsyncTraining::take_pushed(const Peer& peer, const Message& message) {
  std::optional<optim::UpdateStep> terms;
  if (message.bytes != 0 && message.bytes != sizeof(Terms))
    refuse(peer, message, "those are no terms");
  if (message.bytes != 0) terms = decode_terms(peer.scratch);
  machine_->pushed(peer.hello.rank, message.step, message.part, terms);
}

void AsyncTraining::take_done(const Peer& peer, const Message& message) {
  const int worker = peer.hello.rank;
  coordinator_->done(worker, message.step, value_of<StepSums>(peer.scratch),
                     machine_->staleness(worker));
}

void AsyncTraining::take_fence(const Peer& peer, const Message& message) {
  const std::string note(reinterpret_cast<const char*>(peer.scratch.data()), peer.scratch.size());
  const bool first = !coordinator_->is_training();
  coordinator_->set_fence(message.part, message.step, note);
  if (!first) return;
  for (int worker = 0; worker < num_workers(); ++worker)
    if (has(worker)) standing(worker, message.part);
}

// Those that are there: who has not joined yet hears it then.
void AsyncTraining::may_tell() {
  for (int worker = 0; worker < num_workers(); ++worker)
    if (has(worker)) worker_joined(worker);
}

void AsyncTraining::worker_joined(int worker) {
  if (is_coming_back()) return;  // it is told then
  if (!coordinator_) return tell_standing(worker);
  coordinator_->joined(worker);
  tell_noted();
}

void AsyncTraining::worker_left(int worker) {
  if (machine_) machine_->lost_worker(worker);
  for (Tellings* tellings : {&tellings_, &noting_})
    std::erase_if(*tellings, [worker](const Telling& one) { return one.worker == worker; });
  if (!coordinator_ || is_coming_back()) return;
  coordinator_->left(worker);
  tell_noted();
}

// The minutes go to the copy as they are now, together with all that has changed them since.
void AsyncTraining::tell_noted() {
  if (!coordinator_ || is_noting_ || (has_begun() && !is_copied_now())) return;
  if (num_servers() == 1 || !has_begun()) return tell(tellings_);
  Bytes now = encode(coordinator_->minutes());
  if (now == told_minutes_) return tell(tellings_);
  told_minutes_ = std::move(now);
  is_noting_ = true;
  noting_ = std::exchange(tellings_, {});
  say_to_server(next(), {.what = Say::kMinutes}, std::span(told_minutes_));
}

void AsyncTraining::tell(Tellings& tellings) {
  for (const Telling& one : std::exchange(tellings, {})) one.say();
}

void AsyncTraining::tell_standing(int worker) {
  Message message{.what = Say::kStanding, .part = may_tell_begun() ? 1 : 0};
  if (!coordinator_ || !coordinator_->is_training()) return say_to_worker(worker, message);
  message.step = coordinator_->fences();
  std::string& note = told_note_[worker] = coordinator_->note();
  say_to_worker(worker, message, std::as_writable_bytes(std::span(note)));
}

void AsyncTraining::weights(int worker, std::int64_t step, const Piece& piece,
                            std::span<float> floats) {
  say_to_worker(worker,
                {.what = Say::kWeights,
                 .step = step,
                 .part = version_of(machine_->update_count()),
                 .offset = piece.offset},
                floats);
}

void AsyncTraining::copy(std::int64_t made, std::int64_t step, std::span<float> gradients,
                         const std::optional<optim::UpdateStep>& update) {
  for (const Piece& piece : machine_->shard().pieces())
    say_to_server(next(), {.what = Say::kSums, .step = made, .offset = piece.offset},
                  std::as_writable_bytes(Shard::of(gradients, piece)));
  Terms& terms = terms_for(made);
  terms = encode(update.value_or(optim::UpdateStep{}));
  say_to_server(next(),
                {.what = Say::kCommit, .step = made, .part = update ? 1 : 0, .offset = step},
                std::as_writable_bytes(std::span(terms)));
}

Terms& AsyncTraining::terms_for(std::int64_t made) {
  if (!told_terms_.empty() && told_terms_.front().first < copied_)
    told_terms_.splice(told_terms_.end(), told_terms_, told_terms_.begin());
  else
    told_terms_.emplace_back();
  told_terms_.back().first = made;
  return told_terms_.back().second;
}

void AsyncTraining::lease(int worker, std::int64_t step) {
  tellings_.push_back({worker, [this, worker, step, totals = coordinator_->totals()] {
                         say_totals(worker, {.what = Say::kLease, .step = step}, totals);
                       }});
}

void AsyncTraining::held(int worker, int by) {
  tellings_.push_back(
      {worker, [this, worker, by] { say_to_worker(worker, {.what = Say::kHeld, .part = by}); }});
}

void AsyncTraining::cut(int fence, std::int64_t step, bool stop) {
  tellings_.push_back(
      {0, [this, fence, step, stop, totals = coordinator_->totals()] {
         say_totals(0, {.what = Say::kCut, .step = step, .part = fence, .offset = stop ? 1 : 0},
                    totals);
       }});
}

void AsyncTraining::standing(int worker, int) {
  tellings_.push_back({worker, [this, worker] { tell_standing(worker); }});
}

void AsyncTraining::end(int worker, bool saved) {
  tellings_.push_back({worker, [this, worker, saved] {
                         say_to_worker(worker, {.what = Say::kEnd, .part = saved ? 1 : 0});
                       }});
}

void AsyncTraining::say_totals(int worker, const Message& message, const Totals& totals) {
  totals_ = totals;
  say_to_worker(worker, message, std::as_writable_bytes(std::span(&totals_, 1)));
}

}  // namespace coxswain::ps
