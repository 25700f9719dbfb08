#include "trainer/ps/sync_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "trainer/contract/error.h"

namespace coxswain::ps {

namespace {

// Of a kStatus message.
constexpr int kHoldsYours = 1;
constexpr int kHasBegun = 2;
constexpr int kIsBack = 4;
// Of a kOutcome message between servers: what the receiver held, or the sender holds.
constexpr int kOfYours = 1;

}  // namespace

std::optional<std::span<std::byte>> SyncTraining::place_of(Peer& peer, const Message& message) {
  if (!peer.is_worker()) return place_from_server(peer, message);
  const bool leads = peer.leads();
  switch (message.what) {
    case Say::kBeginning:
      if (source_ == Source::kUnknown) return std::nullopt;
      if (leads) return scratch(peer, message, kMaxBeginning);
      break;
    case Say::kState:
      if (leads) return place_of_state(peer, message);
      break;
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
      break;
  }
  refuse(peer, message, "that is not its part");
}

std::optional<std::span<std::byte>> SyncTraining::place_from_server(Peer& peer,
                                                                    const Message& message) {
  const bool is_next = peer.hello.rank == next(), is_previous = peer.hello.rank == previous();
  switch (message.what) {
    case Say::kReady:
    case Say::kDecision:
    case Say::kHolds:
    case Say::kStatus:
      return scratch(peer, message, 0);
    case Say::kBeginning:
      if (is_previous) return scratch(peer, message, kMaxBeginning);
      break;
    case Say::kRestore:
      if (is_next) return scratch(peer, message, kMaxBeginning);
      break;
    case Say::kState:
      return place_of_state(peer, message);
    case Say::kOutcome:
      if (message.bytes == sizeof(backend::ControlFloats) &&
          (message.part == kOfYours ? is_next : is_previous && coming_))
        return scratch(peer, message, message.bytes);
      break;
    case Say::kSums:
      if (is_previous && copy_) return std::as_writable_bytes(copy_->place_of_sums(message));
      break;
    case Say::kCommit:
      if (is_previous && copy_ && message.bytes == sizeof(Terms))
        return scratch(peer, message, message.bytes);
      break;
    default:
      break;
  }
  refuse(peer, message, "that is not its part");
}

bool SyncTraining::is_mine(const Message& message) const {
  return machine_ && machine_->shard().find(message.offset, floats_of(message)) != nullptr;
}

std::span<std::byte> SyncTraining::place_of_state(Peer& peer, const Message& message) {
  const bool is_mine = this->is_mine(message);
  if (is_mine && has_begun()) return scratch(peer, message, message.bytes);
  if (is_mine) return std::as_writable_bytes(place_in(machine_->shard(), message));
  if (peer.is_worker() || !coming_) refuse(peer, message, "nobody has asked for it");
  return std::as_writable_bytes(coming_->place_of_state(message));
}

void SyncTraining::take(Peer& peer, const Message& message) {
  if (!peer.is_worker()) return take_from_server(peer, message);
  const int rank = peer.hello.rank;
  switch (message.what) {
    case Say::kBeginning:
      return begin(decode_beginning(peer.scratch));
    case Say::kState:
      return take_state(message);
    case Say::kTerms:
      return machine_->terms(message.step, decode_terms(peer.scratch));
    case Say::kPush:
      return take_push(peer, message, *machine_, *form_);
    case Say::kAgain:
      return machine_->asks_again(rank, message.step);
    case Say::kAskSlots:
      return say_slots(rank, message.step, machine_->shard());
    default:
      return;
  }
}

void SyncTraining::take_from_server(Peer& peer, const Message& message) {
  const int server = peer.hello.rank;
  switch (message.what) {
    case Say::kReady:
      if (has_begun()) machine_->server_ready(server, message.step, message.part == 1);
      return;
    case Say::kDecision:
      if (has_begun()) machine_->decision(message.step, message.part == 1);
      return;
    case Say::kHolds:
      if (has_begun()) machine_->copy_holds(message.step);
      return;
    case Say::kStatus:
      return take_status(server, message.part);
    case Say::kBeginning: {
      const Beginning beginning = decode_beginning(peer.scratch);
      coming_ = std::make_unique<Copy>(plan_of(beginning, options_.num_slots), server,
                                       options_.rule, beginning);
      return;
    }
    case Say::kRestore:
      return begin(decode_beginning(peer.scratch));
    case Say::kOutcome: {
      std::optional<backend::ControlFloats>& outcome =
          message.part == kOfYours ? restored_outcome_ : coming_->outcome();
      std::memcpy(outcome.emplace().data(), peer.scratch.data(), sizeof *outcome);
      return;
    }
    case Say::kState:
      return take_state(message);
    case Say::kSums:
      return copy_->take_sums(message);
    case Say::kCommit:
      copy_->commit(message.step, message.part == 1, decode_terms(peer.scratch));
      return say_to_server(server, {.what = Say::kHolds, .step = message.step + 1});
    default:
      return;
  }
}

void SyncTraining::begin(const Beginning& beginning) {
  if (has_begun()) {  // and worker 0 has not heard it
    if (machine_->step() == beginning.step) return say_begun();
    throw Error(ExitCode::kPeerLost,
                fmt::format("[ps] to begin at step {} is asked of what is at step {} here",
                            beginning.step, machine_->step()));
  }
  const Plan plan = plan_of(beginning, options_.num_slots);
  SyncOutbox& outbox = *this;
  machine_ = std::make_unique<SyncServer>(plan, index(), options_.reduction, options_.rule,
                                          options_.window, outbox);
  form_.emplace(plan.layout, options_.codec);
  beginning_ = beginning;
  floats_missing_ = plan.map.load(index()) * (1 + options_.num_slots);
}

void SyncTraining::take_state(const Message& message) {
  if (!is_mine(message)) {
    coming_->take_state(message);
    if (!coming_->is_whole()) return;
    copy_ = std::move(coming_);
    return say_to_server(previous(), {.what = Say::kHolds, .step = copy_->position().step});
  }
  if (has_begun()) return;
  floats_missing_ -= floats_of(message);
  if (floats_missing_ == 0) start();
}

// Its state is here.
void SyncTraining::start() {
  machine_->start(beginning_->step, beginning_->update_count, restored_outcome_);
  if (num_servers() > 1) send_copy();
  for (int server = 0; server < num_servers(); ++server) send_status(server);
  say_begun();
  resume_workers();
}

void SyncTraining::say_begun() {
  say_to_worker(0, {.what = Say::kBegun, .step = beginning_->step});
}

void SyncTraining::worker_left(int worker) {
  if (machine_) machine_->lost_worker(worker);
}

void SyncTraining::server_joined(int server) {
  send_status(server);
  if (has_begun() && server == next()) send_copy();
}

void SyncTraining::server_left(int server) {
  if (has_begun() && server == next()) machine_->copy_holds(std::nullopt);
}

void SyncTraining::send_status(int server) {
  const bool holds = copy_ && server == previous();
  say_to_server(server, {.what = Say::kStatus,
                         .part = (holds ? kHoldsYours : 0) | (has_begun() ? kHasBegun : 0) |
                                 (incarnation() > 0 && !has_begun() ? kIsBack : 0)});
}

void SyncTraining::take_status(int server, int status) {
  if (server == next() && source_ == Source::kUnknown && !has_begun()) find_source(status);
  if (server == previous() && (status & kHasBegun) == 0 && copy_) restore_previous();
  if (has_begun() && (status & kHasBegun) != 0) machine_->tell_servers_again();
}

void SyncTraining::find_source(int status_of_next) {
  if ((status_of_next & kHoldsYours) != 0) {
    source_ = Source::kNext;
  } else if ((status_of_next & (kHasBegun | kIsBack)) == 0) {
    source_ = Source::kWorker;  // nothing has been trained yet
  } else {
    give_up({fmt::format("what server {} held is lost, since server {} came back, too: the job "
                         "goes on from its checkpoint",
                         index(), next()),
             ExitCode::kPeerLost});
  }
  resume_workers();
}

// The shard stays as it is until the next server has it: SyncServer makes no step before.
void SyncTraining::send_copy() {
  machine_->copy_holds(std::nullopt);
  Beginning now = *beginning_;
  now.step = machine_->step();
  now.update_count = machine_->update_count();
  told_beginning_ = encode(now);
  say_to_server(next(), {.what = Say::kBeginning, .step = now.step},
                std::as_writable_bytes(std::span(told_beginning_)));
  send_outcome(next(), machine_->outcome(), 0);
  send_state(next(), machine_->shard());
}

void SyncTraining::restore_previous() {
  told_restore_ = encode(copy_->position());
  const std::int64_t step = copy_->position().step;
  say_to_server(previous(), {.what = Say::kRestore, .step = step},
                std::as_writable_bytes(std::span(told_restore_)));
  send_outcome(previous(), copy_->outcome(), kOfYours);
  send_state(previous(), copy_->shard());
}

void SyncTraining::send_outcome(int server, std::optional<backend::ControlFloats>& outcome,
                                int whose) {
  if (outcome)
    say_to_server(server, {.what = Say::kOutcome, .part = whose},
                  std::as_writable_bytes(std::span(*outcome)));
}

void SyncTraining::send_state(int server, Shard& shard) {
  for (int array = 0; array <= shard.num_slots(); ++array)
    for (const Piece& piece : shard.pieces())
      say_to_server(server, {.what = Say::kState, .part = array, .offset = piece.offset},
                    std::as_writable_bytes(Shard::of(shard.array(array), piece)));
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
