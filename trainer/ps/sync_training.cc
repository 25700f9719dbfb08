#include "trainer/ps/sync_training.h"

#include "trainer/ps/sync_copy.h"

namespace coxswain::ps {

std::optional<std::span<std::byte>> SyncTraining::place_of(Peer& peer, const Message& message) {
  const bool leads = peer.leads();
  if (!peer.is_worker()) {
    if (message.what == Say::kReady || message.what == Say::kDecision)
      return scratch(peer, message, 0);
    return place_of_common(peer, message);
  }
  switch (message.what) {
    case Say::kTerms:
      if (!has_begun()) return std::nullopt;  // what this server held is on its way
      if (leads && message.bytes == sizeof(Terms)) return scratch(peer, message, message.bytes);
      break;
    case Say::kPush:
      if (!has_begun()) return std::nullopt;
      return place_of_push(peer, message, *machine_, *form_);
    case Say::kAgain:
      if (!has_begun()) return std::nullopt;
      return scratch(peer, message, 0);
    case Say::kAskSlots:
      if (!has_begun()) return std::nullopt;
      if (leads) return scratch(peer, message, 0);
      break;
    default:
      return place_of_common(peer, message);
  }
  refuse(peer, message, "that is not its part");
}

void SyncTraining::take(Peer& peer, const Message& message) {
  const int rank = peer.hello.rank;
  switch (message.what) {
    case Say::kTerms:
      return machine_->terms(message.step, decode_terms(peer.scratch));
    case Say::kPush:
      return take_push(peer, message, *machine_, *form_);
    case Say::kAgain:
      return machine_->asks_again(rank, message.step);
    case Say::kAskSlots:
      return say_slots(rank, message.step, machine_->shard());
    case Say::kReady:
      if (has_begun()) machine_->server_ready(rank, message.step, message.part == 1);
      return;
    case Say::kDecision:
      if (has_begun()) machine_->decision(message.step, message.part == 1);
      return;
    default:
      return take_common(peer, message);
  }
}

void SyncTraining::make_machine(const Plan& plan) {
  SyncOutbox& outbox = *this;
  machine_ = std::make_unique<SyncServer>(plan, index(), options_.reduction, options_.rule,
                                          options_.window, outbox);
  form_.emplace(plan.layout, options_.codec);
}

void SyncTraining::start_machine(const Beginning& position, std::span<const std::byte> also) {
  machine_->start(position.step, position.update_count, SyncCopy::decode(also));
}

Beginning SyncTraining::position() {
  return {beginning().layout, machine_->step(), machine_->update_count()};
}

Bytes SyncTraining::also() { return SyncCopy::encode(machine_->outcome()); }

std::unique_ptr<Copy> SyncTraining::make_copy(const Plan& plan, int server,
                                              const Beginning& beginning) {
  return std::make_unique<SyncCopy>(plan, server, options_.rule, beginning);
}

void SyncTraining::worker_left(int worker) {
  if (machine_) machine_->lost_worker(worker);
}

void SyncTraining::copy_sums(std::int64_t step, const Piece& piece, std::span<float> sums) {
  say_to_server(next(), {.what = Say::kSums, .step = step, .offset = piece.offset},
                std::as_writable_bytes(sums));
}

void SyncTraining::copy_commit(std::int64_t step, bool updated, const optim::UpdateStep& terms) {
  told_terms_ = encode(terms);
  say_to_server(next(), {.what = Say::kCommit, .step = step, .part = updated ? 1 : 0},
                std::as_writable_bytes(std::span(told_terms_)));
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
