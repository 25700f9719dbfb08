#include "trainer/ps/server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "trainer/contract/error.h"

namespace coxswain::ps {

namespace {

constexpr int kMostSilentTicks = 10;
constexpr std::size_t kMostNamed = 4;  // of the missing
constexpr std::int64_t kTerms = 3;     // floats: rate, momentum, parts of statistics

[[noreturn]] void refuse(const net::Hello& who, const Message& message, const char* why) {
  throw Error(ExitCode::kPeerLost,
              fmt::format("[ps] {} said {} of step {} ({} bytes at {}): {}", name_of(who),
                          static_cast<int>(message.what), message.step, message.bytes,
                          message.offset, why));
}

std::int64_t floats_of(const Message& message) {
  return message.bytes / static_cast<std::int64_t>(sizeof(float));
}

}  // namespace

Server::Server(ServerOptions options) : options_(std::move(options)) {}

void Server::use(net::Links& links) {
  links_ = &links;
  for (int i = 0; i < index(); ++i) links_->dial(options_.servers[static_cast<std::size_t>(i)]);
}

void Server::tick() {
  std::vector<net::LinkId> silent;
  for (auto& [link, peer] : peers_) {
    if (!peer.has_joined) continue;  // the greeting has a deadline of its own
    links_->send_beat(link);
    if (links_->waits(link)) peer.silent_ticks = 0;  // its beats lie behind what waits here
    if (++peer.silent_ticks > kMostSilentTicks) silent.push_back(link);
  }
  for (const net::LinkId link : silent) {
    links_->drop(link);
    left(link, fmt::format("it was silent for {} s", kMostSilentTicks));
  }
}

std::string Server::missing_workers() const {
  std::vector<std::string> names;
  std::size_t count = 0;
  for (int worker = 0; worker < options_.hello.world_size; ++worker) {
    const auto found = workers_.find(worker);
    if (found != workers_.end() && peers_.at(found->second).has_joined) continue;
    const auto said = farewells_.find(worker);
    if (++count <= kMostNamed)
      names.push_back(fmt::format("worker {} ({})", worker,
                                  said == farewells_.end() ? "it has not called" : said->second));
  }
  return fmt::format("{}{}", fmt::join(names, ", "), count > names.size() ? ", ..." : "");
}

std::optional<net::Refusal> Server::admit(net::LinkId link, const net::Hello& theirs) {
  const bool is_worker = theirs.role == kWorker;
  const int most = is_worker ? options_.hello.world_size : num_servers();
  const bool is_me = !is_worker && theirs.rank == index();
  if (theirs.rank >= most || is_me)
    return net::Refusal{fmt::format("{} refuses {}: there is no such one", name_of(options_.hello),
                                    name_of(theirs))};
  auto& places = is_worker ? workers_ : servers_;
  if (const auto old = places.find(theirs.rank); old != places.end()) {
    const net::LinkId former = old->second;
    if (theirs.incarnation < peers_.at(former).hello.incarnation)
      return net::Refusal{fmt::format("{} refuses {}: another has taken its place",
                                      name_of(options_.hello), name_of(theirs)),
                          ExitCode::kPeerLost};
    links_->drop(former);
    left(former, "it has called again");
  }
  places[theirs.rank] = link;
  peers_[link].hello = theirs;
  return std::nullopt;
}

void Server::joined(net::LinkId link) {
  Peer& peer = peers_.at(link);
  peer.has_joined = true;
  if (!peer.is_worker() && machine_ && has_begun()) machine_->tell_servers_again();
}

std::optional<net::Pieces> Server::place(net::LinkId link, const net::FrameHead& head) {
  Peer& peer = peers_.at(link);
  const Message message = message_of(head);
  if (message.what == Say::kPush && has_begun()) {
    const auto answer = machine_->offer({peer.hello.rank, message.step, message.part,
                                         message.offset, floats_of(message)});
    if (answer.verdict == SyncServer::Verdict::kWait) return std::nullopt;
    if (answer.verdict == SyncServer::Verdict::kTake)
      return net::Pieces{std::as_writable_bytes(answer.memory)};
    peer.scratch.resize(head.length);  // a block's at most: offer() has seen that it is one
    return net::Pieces{peer.scratch};
  }
  return net::Pieces{place_of(peer, message)};
}

std::span<std::byte> Server::place_of(Peer& peer, const Message& message) {
  const auto scratch = [&](std::int64_t most) -> std::span<std::byte> {
    if (message.bytes > most) refuse(peer.hello, message, "it is too long");
    peer.scratch.resize(static_cast<std::size_t>(message.bytes));
    return peer.scratch;
  };
  const bool leads = peer.is_worker() && peer.hello.rank == 0;
  switch (message.what) {
    case Say::kBeginning:
      if (leads) return scratch(kMaxBeginning);
      break;
    case Say::kState:
      if (leads) return std::as_writable_bytes(state_of(message));
      break;
    case Say::kTerms:
      if (leads && has_begun() && floats_of(message) == kTerms) return scratch(message.bytes);
      break;
    case Say::kAgain:
      if (peer.is_worker() && has_begun()) return scratch(0);
      break;
    case Say::kAskSlots:
      if (leads && has_begun()) return scratch(0);
      break;
    case Say::kReady:
    case Say::kDecision:
      if (!peer.is_worker()) return scratch(0);
      break;
    default:
      break;
  }
  refuse(peer.hello, message, "that is not its part, or not yet");
}

std::span<float> Server::state_of(const Message& message) {
  const auto no_piece = [&]() { refuse(options_.hello, message, "there is no such piece here"); };
  if (!machine_ || message.part > options_.num_slots || has_begun()) no_piece();
  Shard& shard = machine_->shard();
  const auto piece =
      std::ranges::lower_bound(shard.pieces(), message.offset, {}, &Piece::offset);
  if (piece == shard.pieces().end() || piece->offset != message.offset ||
      piece->length != floats_of(message))
    no_piece();
  const std::span<float> all =
      message.part == 0 ? shard.weights() : shard.slot(message.part - 1);
  return all.subspan(static_cast<std::size_t>(piece->local),
                     static_cast<std::size_t>(piece->length));
}

void Server::received(net::LinkId link, const net::FrameHead& head) {
  Peer& peer = peers_.at(link);
  peer.silent_ticks = 0;
  const Message message = message_of(head);
  const int rank = peer.hello.rank;
  switch (message.what) {
    case Say::kBeginning: {
      Numbers numbers(peer.scratch.size() / sizeof(std::int64_t));
      std::memcpy(numbers.data(), peer.scratch.data(), numbers.size() * sizeof(std::int64_t));
      return begin(decode_beginning(numbers));
    }
    case Say::kState:
      return take_state(message);
    case Say::kTerms: {
      float terms[kTerms] = {};
      std::memcpy(terms, peer.scratch.data(), sizeof terms);
      return machine_->terms(message.step, {.lr = terms[0],
                                            .momentum = terms[1],
                                            .update_count = 0,
                                            .statistic_parts = terms[2]});
    }
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

void Server::begin(const Beginning& beginning) {
  if (has_begun() && machine_->step() > beginning.step)
    throw Error(ExitCode::kPeerLost,
                fmt::format("[ps] worker 0 begins at step {} what is at step {} here",
                            beginning.step, machine_->step()));
  const Plan plan{beginning.layout, options_.num_slots,
                  ShardMap(beginning.layout, num_servers())};
  SyncOutbox& outbox = *this;
  machine_ = std::make_unique<SyncServer>(plan, index(), options_.reduction, options_.rule,
                                          options_.window, outbox);
  beginning_ = beginning;
  floats_missing_ = plan.map.load(index()) * (1 + options_.num_slots);
}

void Server::take_state(const Message& message) {
  floats_missing_ -= floats_of(message);
  if (floats_missing_ > 0) return;
  machine_->start(beginning_->step, beginning_->update_count);
  say_to_workers(0, {.what = Say::kBegun, .step = beginning_->step}, {});
}

void Server::send_slots(int worker, std::int64_t step) {
  Shard& shard = machine_->shard();
  for (int slot = 0; slot < shard.num_slots(); ++slot)
    for (const Piece& piece : shard.pieces())
      say_to_workers(worker,
                     {.what = Say::kSlots, .step = step, .part = slot, .offset = piece.offset},
                     shard.slot(slot).subspan(static_cast<std::size_t>(piece.local),
                                              static_cast<std::size_t>(piece.length)));
}

void Server::heard(net::LinkId link) { peers_.at(link).silent_ticks = 0; }

void Server::left(net::LinkId link, const std::string& why) {
  const Peer& peer = peers_.at(link);
  if (peer.is_worker()) {
    farewells_[peer.hello.rank] = why.empty() ? "it has said goodbye" : why;
    if (machine_) machine_->lost_worker(peer.hello.rank);
  }
  const int rank = peer.hello.rank;
  const bool is_mine_to_call = !peer.is_worker() && rank < index();
  for (auto* places : {&workers_, &servers_})
    std::erase_if(*places, [link](const auto& place) { return place.second == link; });
  peers_.erase(link);
  if (is_mine_to_call) links_->dial(options_.servers[static_cast<std::size_t>(rank)]);
}

void Server::not_reached(const net::Address&, const net::Refusal& refusal) {
  if (refusal.code != ExitCode::kPeersMissing) refused_ = refusal;
}

void Server::say(net::LinkId link, const Message& message, std::span<float> floats) {
  if (!peers_.at(link).has_joined) return;
  net::Pieces pieces;
  if (!floats.empty()) pieces.push_back(std::as_writable_bytes(floats));
  links_->send(link, label_of(message), std::move(pieces), 0);
}

void Server::say_to_workers(std::optional<int> worker, const Message& message,
                            std::span<float> floats) {
  for (const auto& [rank, link] : workers_)
    if (!worker || *worker == rank) say(link, message, floats);
}

void Server::say_to_servers(const Message& message) {
  for (const auto& [server, link] : servers_) say(link, message);
}

void Server::ready(std::int64_t step, bool finite) {
  say_to_servers({.what = Say::kReady, .step = step, .part = finite ? 1 : 0});
}

void Server::decided(std::int64_t step, bool updated) {
  say_to_servers({.what = Say::kDecision, .step = step, .part = updated ? 1 : 0});
}

void Server::outcome(std::optional<int> worker, std::int64_t step, std::span<float> sums) {
  say_to_workers(worker, {.what = Say::kOutcome, .step = step}, sums);
}

void Server::weights(std::optional<int> worker, std::int64_t step, const Piece& piece,
                     std::span<float> floats) {
  say_to_workers(worker, {.what = Say::kWeights, .step = step, .offset = piece.offset}, floats);
}

void Server::has_room() {
  for (const auto& [rank, link] : workers_) links_->resume(link);
}

}  // namespace coxswain::ps
