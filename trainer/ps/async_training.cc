#include "trainer/ps/async_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "trainer/contract/error.h"
#include "trainer/ps/copy.h"

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
    case Say::kBeginning:
      return kMaxBeginning;
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
    : Server(std::move(server)), options_(std::move(options)) {
  CoordinatorOutbox& outbox = *this;
  if (index() == 0) coordinator_.emplace(options_.staleness, outbox);
}

bool AsyncTraining::may_say(const Peer& peer, const Message& message) const {
  if (!peer.is_worker()) return false;
  switch (message.what) {
    case Say::kBeginning:
      return peer.leads();
    case Say::kState:
      return peer.leads() && machine_ && !has_begun();
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
  if (!may_say(peer, message)) refuse(peer, message, "that is not its part, or not yet");
  if (message.what == Say::kPush) return place_of_push(peer, message, *machine_, *form_);
  if (message.what == Say::kState)
    return std::as_writable_bytes(place_in(machine_->shard(), message));
  return scratch(peer, message, most_bytes(message.what));
}

void AsyncTraining::take(Peer& peer, const Message& message) {
  const int worker = peer.hello.rank;
  switch (message.what) {
    case Say::kBeginning:
      return begin(decode_beginning(peer.scratch));
    case Say::kState:
      return take_state(message);
    case Say::kPush:
      return take_push(peer, message, *machine_, *form_);
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
    case Say::kFence: {
      const std::string note(reinterpret_cast<const char*>(peer.scratch.data()),
                             peer.scratch.size());
      const bool first = !coordinator_->is_training();
      coordinator_->set_fence(message.part, message.step, note);
      if (first) tell_all_standing();
      return;
    }
    case Say::kEnd:
      return coordinator_->end(message.part == 1);
    default:
      return;
  }
}

void AsyncTraining::begin(const Beginning& beginning) {
  if (has_begun() && (machine_->updates() > 0 || (coordinator_ && coordinator_->is_training())))
    throw Error(ExitCode::kPeerLost, "[ps] worker 0 begins what is under way here");
  const Plan plan = plan_of(beginning, options_.num_slots);
  AsyncOutbox& outbox = *this;
  machine_ = std::make_unique<AsyncServer>(plan, index(), options_.rule, options_.window, outbox);
  form_.emplace(plan.layout, options_.codec);
  beginning_ = beginning;
  floats_missing_ = plan.map.load(index()) * (1 + options_.num_slots);
}

void AsyncTraining::take_state(const Message& message) {
  floats_missing_ -= floats_of(message);
  if (floats_missing_ > 0) return;
  machine_->start(beginning_->step, beginning_->update_count);
  if (coordinator_) coordinator_->begin(beginning_->step);
  tell_all_standing();
  say_to_worker(0, {.what = Say::kBegun, .step = beginning_->step});
}

void AsyncTraining::take_pushed(const Peer& peer, const Message& message) {
  if (message.bytes == 0) return machine_->pushed(peer.hello.rank, message.step, std::nullopt);
  if (message.bytes != sizeof(Terms)) refuse(peer, message, "those are no terms");
  machine_->pushed(peer.hello.rank, message.step, decode_terms(peer.scratch));
}

void AsyncTraining::take_done(const Peer& peer, const Message& message) {
  const int worker = peer.hello.rank;
  coordinator_->done(worker, message.step, value_of<StepSums>(peer.scratch),
                     machine_->staleness(worker));
}

void AsyncTraining::worker_joined(int worker) {
  if (coordinator_) return coordinator_->joined(worker);
  tell_standing(worker);
}

void AsyncTraining::worker_left(int worker) {
  if (machine_) machine_->lost_worker(worker);
  if (coordinator_) coordinator_->left(worker);
}

void AsyncTraining::tell_all_standing() {
  for (int worker = 0; worker < num_workers(); ++worker) tell_standing(worker);
}

void AsyncTraining::tell_standing(int worker) {
  Message message{.what = Say::kStanding, .part = has_begun() ? 1 : 0};
  if (!coordinator_ || !coordinator_->is_training()) return say_to_worker(worker, message);
  message.step = coordinator_->fences();
  std::string& note = told_note_[worker] = coordinator_->note();
  say_to_worker(worker, message, std::as_writable_bytes(std::span(note)));
}

void AsyncTraining::weights(int worker, std::int64_t step, const Piece& piece,
                            std::span<float> floats) {
  say_to_worker(worker, {.what = Say::kWeights, .step = step, .offset = piece.offset}, floats);
}

void AsyncTraining::lease(int worker, std::int64_t step) {
  totals_ = coordinator_->totals();
  say_to_worker(worker, {.what = Say::kLease, .step = step},
                std::as_writable_bytes(std::span(&totals_, 1)));
}

void AsyncTraining::held(int worker, int by) {
  say_to_worker(worker, {.what = Say::kHeld, .part = by});
}

void AsyncTraining::cut(int fence, std::int64_t step, bool stop) {
  totals_ = coordinator_->totals();
  say_to_worker(0, {.what = Say::kCut, .step = step, .part = fence, .offset = stop ? 1 : 0},
                std::as_writable_bytes(std::span(&totals_, 1)));
}

void AsyncTraining::end(int worker, bool saved) {
  say_to_worker(worker, {.what = Say::kEnd, .part = saved ? 1 : 0});
}

}  // namespace coxswain::ps
