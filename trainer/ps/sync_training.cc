#include "trainer/ps/sync_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "trainer/contract/error.h"

namespace coxswain::ps {

std::optional<std::span<std::byte>> SyncTraining::place_of(Peer& peer, const Message& message) {
  const bool leads = peer.leads(), has_begun = this->has_begun();
  switch (message.what) {
    case Say::kBeginning:
      if (leads) return scratch(peer, message, kMaxBeginning);
      break;
    case Say::kState:
      if (leads) return std::as_writable_bytes(state_of(peer, message));
      break;
    case Say::kTerms:
      if (leads && has_begun && message.bytes == sizeof(Terms))
        return scratch(peer, message, message.bytes);
      break;
    case Say::kPush:
      if (peer.is_worker() && has_begun) return place_of_push(peer, message);
      break;
    case Say::kAgain:
      if (peer.is_worker() && has_begun) return scratch(peer, message, 0);
      break;
    case Say::kAskSlots:
      if (leads && has_begun) return scratch(peer, message, 0);
      break;
    case Say::kReady:
    case Say::kDecision:
      if (!peer.is_worker()) return scratch(peer, message, 0);
      break;
    default:
      break;
  }
  refuse(peer, message, "that is not its part, or not yet");
}

std::optional<std::span<std::byte>> SyncTraining::place_of_push(Peer& peer,
                                                                const Message& message) {
  const auto answer = machine_->offer(
      {peer.hello.rank, message.step, message.part, message.offset, floats_of(message)});
  switch (answer.verdict) {
    case SyncServer::Verdict::kWait:
      return std::nullopt;
    case SyncServer::Verdict::kTake:
      return std::as_writable_bytes(answer.memory);
    case SyncServer::Verdict::kIgnore:
      break;
  }
  return scratch(peer, message, message.bytes);  // offer() has seen that it is a block
}

std::span<float> SyncTraining::state_of(const Peer& peer, const Message& message) {
  if (!machine_ || has_begun() || message.part > options_.num_slots)
    refuse(peer, message, "there is no such array here, or it is known");
  Shard& shard = machine_->shard();
  const Piece* piece = shard.find(message.offset, floats_of(message));
  if (piece == nullptr) refuse(peer, message, "there is no such piece here");
  return shard.of(message.part == 0 ? shard.weights() : shard.slot(message.part - 1), *piece);
}

void SyncTraining::take(Peer& peer, const Message& message) {
  const int rank = peer.hello.rank;
  switch (message.what) {
    case Say::kBeginning:
      return begin(decode_beginning(peer.scratch));
    case Say::kState:
      return take_state(message);
    case Say::kTerms:
      return machine_->terms(message.step, decode_terms(peer.scratch));
    case Say::kPush:
      return machine_->received(
          {rank, message.step, message.part, message.offset, floats_of(message)});
    case Say::kAgain:
      return machine_->asks_again(rank, message.step);
    case Say::kAskSlots:
      return send_slots(rank, message.step);
    case Say::kReady:
      if (has_begun()) machine_->server_ready(rank, message.step, message.part == 1);
      return;
    case Say::kDecision:
      if (has_begun()) machine_->decision(message.step, message.part == 1);
      return;
    default:
      return;
  }
}

void SyncTraining::begin(const Beginning& beginning) {
  if (has_begun() && machine_->step() > beginning.step)
    throw Error(ExitCode::kPeerLost,
                fmt::format("[ps] worker 0 begins at step {} what is at step {} here",
                            beginning.step, machine_->step()));
  const Plan plan{beginning.layout, options_.num_slots, ShardMap(beginning.layout, num_servers())};
  SyncOutbox& outbox = *this;
  machine_ = std::make_unique<SyncServer>(plan, index(), options_.reduction, options_.rule,
                                          options_.window, outbox);
  beginning_ = beginning;
  floats_missing_ = plan.map.load(index()) * (1 + options_.num_slots);
}

void SyncTraining::take_state(const Message& message) {
  floats_missing_ -= floats_of(message);
  if (floats_missing_ > 0) return;
  machine_->start(beginning_->step, beginning_->update_count);
  say_to_worker(0, {.what = Say::kBegun, .step = beginning_->step});
}

void SyncTraining::send_slots(int worker, std::int64_t step) {
  Shard& shard = machine_->shard();
  for (int slot = 0; slot < shard.num_slots(); ++slot)
    for (const Piece& piece : shard.pieces())
      say_to_worker(worker,
                    {.what = Say::kSlots, .step = step, .part = slot, .offset = piece.offset},
                    shard.of(shard.slot(slot), piece));
}

void SyncTraining::worker_left(int worker) {
  if (machine_) machine_->lost_worker(worker);
}

void SyncTraining::server_joined(int) {
  if (has_begun()) machine_->tell_servers_again();
}

void SyncTraining::ready(std::int64_t step, bool finite) {
  say_to_servers({.what = Say::kReady, .step = step, .part = finite ? 1 : 0});
}

void SyncTraining::decided(std::int64_t step, bool updated) {
  say_to_servers({.what = Say::kDecision, .step = step, .part = updated ? 1 : 0});
}

void SyncTraining::outcome(std::optional<int> worker, std::int64_t step, std::span<float> sums) {
  const Message message{.what = Say::kOutcome, .step = step};
  return worker ? say_to_worker(*worker, message, sums) : say_to_workers(message, sums);
}

void SyncTraining::weights(std::optional<int> worker, std::int64_t step, const Piece& piece,
                           std::span<float> floats) {
  const Message message{.what = Say::kWeights, .step = step, .offset = piece.offset};
  return worker ? say_to_worker(*worker, message, floats) : say_to_workers(message, floats);
}

}  // namespace coxswain::ps
