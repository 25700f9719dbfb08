#include "trainer/ps/copied_server.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/contract/error.h"

namespace coxswain::ps {

namespace {

// Of a kStatus message.
constexpr int kHoldsYours = 1;
constexpr int kHasBegun = 2;
constexpr int kIsBack = 4;
// Of a kAlso message: what the receiver knew, or the sender knows.
constexpr int kOfYours = 1;

constexpr const char* kNotItsPart = "that is not its part";

}  // namespace

std::optional<std::span<std::byte>> CopiedServer::place_of_common(Peer& peer,
                                                                  const Message& message) {
  if (!peer.is_worker()) return place_from_server(peer, message);
  switch (message.what) {
    case Say::kBeginning:
      if (source_ == Source::kUnknown) return std::nullopt;
      if (peer.leads()) return scratch(peer, message, kMaxBeginning);
      break;
    case Say::kState:
      if (peer.leads()) return place_of_state(peer, message);
      break;
    default:
      break;
  }
  refuse(peer, message, kNotItsPart);
}

std::optional<std::span<std::byte>> CopiedServer::place_from_server(Peer& peer,
                                                                    const Message& message) {
  const bool is_next = peer.hello.rank == next(), is_previous = peer.hello.rank == previous();
  switch (message.what) {
    case Say::kHolds:
    case Say::kStatus:
      return scratch(peer, message, 0);
    case Say::kBeginning:
      if (is_previous) return scratch(peer, message, kMaxBeginning);
      break;
    case Say::kRestore:
      if (is_next) return scratch(peer, message, kMaxBeginning);
      break;
    case Say::kAlso:
      if (message.part == kOfYours ? is_next && beginning_ : is_previous && coming_)
        return scratch(peer, message, kMaxMinutes);
      break;
    case Say::kState:
      return place_of_state(peer, message);
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
  refuse(peer, message, kNotItsPart);
}

bool CopiedServer::is_mine(const Message& message) {
  return machine() && machine()->shard().find(message.offset, floats_of(message)) != nullptr;
}

std::span<std::byte> CopiedServer::place_of_state(Peer& peer, const Message& message) {
  const bool is_mine = this->is_mine(message);
  if (is_mine && has_begun()) return scratch(peer, message, message.bytes);
  if (is_mine) return std::as_writable_bytes(place_in(machine()->shard(), message));
  if (peer.is_worker() || !coming_) refuse(peer, message, "nobody has asked for it");
  return std::as_writable_bytes(coming_->place_of_state(message));
}

void CopiedServer::take_common(Peer& peer, const Message& message) {
  if (!peer.is_worker()) return take_from_server(peer, message);
  if (message.what == Say::kBeginning) return begin(decode_beginning(peer.scratch));
  if (message.what == Say::kState) return take_state(message);
}

void CopiedServer::take_from_server(Peer& peer, const Message& message) {
  const int server = peer.hello.rank;
  switch (message.what) {
    case Say::kHolds:
      if (has_begun() && server == next()) take_holds(message.step);
      return;
    case Say::kStatus:
      return take_status(server, message.part);
    case Say::kBeginning: {
      const Beginning beginning = decode_beginning(peer.scratch);
      coming_ = make_copy(plan_of(beginning, num_slots_), server, beginning);
      return;
    }
    case Say::kRestore:
      return begin(decode_beginning(peer.scratch));
    case Say::kAlso:
      if (message.part != kOfYours) return coming_->set_also(peer.scratch);
      also_ = peer.scratch;
      return;
    case Say::kState:
      return take_state(message);
    case Say::kSums:
      return copy_->take_sums(message);
    case Say::kCommit:
      copy_->commit(message, decode_terms(peer.scratch));
      return say_to_server(server, {.what = Say::kHolds, .step = message.step + 1});
    default:
      return;
  }
}

void CopiedServer::begin(const Beginning& beginning) {
  if (has_begun()) {  // and worker 0 has not heard it
    const std::int64_t step = position().step;
    if (step != beginning.step)
      throw Error(ExitCode::kPeerLost,
                  fmt::format("[ps] to begin at step {} is asked of what is at step {} here",
                              beginning.step, step));
    owes_begun_ = true;
    return say_begun();
  }
  const Plan plan = plan_of(beginning, num_slots_);
  make_machine(plan);
  beginning_ = beginning;
  also_.clear();
  floats_missing_ = plan.map.load(index()) * (1 + num_slots_);
}

void CopiedServer::take_state(const Message& message) {
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
void CopiedServer::start() {
  start_machine(*beginning_, also_);
  owes_begun_ = true;
  was_copied_ = num_servers() == 1;
  if (num_servers() > 1) send_copy();
  for (int server = 0; server < num_servers(); ++server) send_status(server);
  if (may_tell_begun()) may_tell();
  say_begun();
  resume_workers();
}

void CopiedServer::take_holds(std::int64_t steps) {
  is_copied_ = true;
  const bool is_first = !may_tell_begun();
  was_copied_ = true;
  copy_holds(steps);
  if (is_first) may_tell();
  say_begun();
}

void CopiedServer::say_begun() {
  if (!may_tell_begun() || !std::exchange(owes_begun_, false)) return;
  say_to_worker(0, {.what = Say::kBegun, .step = beginning_->step});
}

void CopiedServer::server_joined(int server) {
  send_status(server);
  if (has_begun() && server == next()) send_copy();
}

void CopiedServer::server_left(int server) {
  if (server != next()) return;
  is_copied_ = false;
  if (has_begun()) copy_holds(std::nullopt);
}

void CopiedServer::send_status(int server) {
  const bool holds = copy_ && server == previous();
  say_to_server(server, {.what = Say::kStatus,
                         .part = (holds ? kHoldsYours : 0) | (has_begun() ? kHasBegun : 0) |
                                 (incarnation() > 0 && !has_begun() ? kIsBack : 0)});
}

void CopiedServer::take_status(int server, int status) {
  if (server == next() && source_ == Source::kUnknown && !has_begun()) find_source(status);
  if (server == previous() && (status & kHasBegun) == 0 && copy_) restore_previous();
  if (has_begun() && (status & kHasBegun) != 0) server_has_begun(server);
}

void CopiedServer::find_source(int status_of_next) {
  if ((status_of_next & kHoldsYours) != 0) {
    source_ = Source::kNext;
  } else if ((status_of_next & (kHasBegun | kIsBack)) == 0) {
    source_ = Source::kWorker;  // nothing has been trained yet
    may_tell();
  } else {
    give_up({fmt::format("what server {} held is lost, since server {} came back, too: the job "
                         "goes on from its checkpoint",
                         index(), next()),
             ExitCode::kPeerLost});
  }
  resume_workers();
}

void CopiedServer::send_copy() {
  is_copied_ = false;
  copy_holds(std::nullopt);
  const Beginning now = position();
  told_beginning_ = encode(now);
  told_also_ = also();
  say_to_server(next(), {.what = Say::kBeginning, .step = now.step},
                std::as_writable_bytes(std::span(told_beginning_)));
  say_to_server(next(), {.what = Say::kAlso}, std::span(told_also_));
  send_state(next(), machine()->shard());
}

void CopiedServer::restore_previous() {
  const Beginning& position = copy_->position();
  told_restore_ = encode(position);
  told_restored_ = copy_->also();
  say_to_server(previous(), {.what = Say::kRestore, .step = position.step},
                std::as_writable_bytes(std::span(told_restore_)));
  say_to_server(previous(), {.what = Say::kAlso, .part = kOfYours}, std::span(told_restored_));
  send_state(previous(), copy_->shard());
}

void CopiedServer::send_state(int server, Shard& shard) {
  for (int array = 0; array <= shard.num_slots(); ++array)
    for (const Piece& piece : shard.pieces())
      say_to_server(server, {.what = Say::kState, .part = array, .offset = piece.offset},
                    std::as_writable_bytes(Shard::of(shard.array(array), piece)));
}

}  // namespace coxswain::ps
