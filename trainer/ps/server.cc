#include "trainer/ps/server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "trainer/contract/error.h"

namespace coxswain::ps {

namespace {

constexpr int kMostSilentOfPeer = 10;
constexpr std::size_t kMostMissingNamed = 4;  // of the missing
}  // namespace

void Server::use(net::Links& links) {
  links_ = &links;
  for (int i = 0; i < index(); ++i) call(i);
}

void Server::call(int server) {
  if (talks_to(server)) links_->dial(options_.servers[static_cast<std::size_t>(server)]);
}

void Server::tick() {
  std::vector<net::LinkId> silent;
  for (auto& [link, peer] : peers_) {
    if (!peer.has_joined) continue;  // the greeting has a deadline of its own
    links_->send_beat(link);
    if (links_->waits(link)) peer.silent_ticks = 0;  // its beats lie behind what waits here
    if (++peer.silent_ticks > kMostSilentOfPeer) silent.push_back(link);
  }
  for (const net::LinkId link : silent) {
    links_->drop(link);
    left(link, fmt::format("it was silent for {} s", kMostSilentOfPeer));
  }
}

std::string Server::missing_workers() const {
  std::vector<std::string> names;
  std::size_t count = 0;
  for (int worker = 0; worker < options_.hello.world_size; ++worker) {
    const auto found = workers_.find(worker);
    if (found != workers_.end() && peers_.at(found->second).has_joined) continue;
    const auto said = farewells_.find(worker);
    if (++count <= kMostMissingNamed)
      names.push_back(fmt::format("worker {} ({})", worker,
                                  said == farewells_.end() ? "it has not called" : said->second));
  }
  return fmt::format("{}{}", fmt::join(names, ", "), count > names.size() ? ", ..." : "");
}

std::optional<net::Refusal> Server::admit(net::LinkId link, const net::Hello& theirs) {
  const bool is_worker = theirs.role == kWorker;
  const int most = is_worker ? options_.hello.world_size : num_servers();
  const bool is_another_server = theirs.role == kServer && theirs.rank != index();
  if (theirs.rank >= most || !(is_worker || is_another_server))
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
  if (peer.is_worker())
    worker_joined(peer.hello.rank);
  else
    server_joined(peer.hello.rank);
}

std::optional<net::Pieces> Server::place(net::LinkId link, const net::FrameHead& head) {
  const auto memory = place_of(peers_.at(link), message_of(head));
  if (!memory) return std::nullopt;
  return net::Pieces{*memory};
}

void Server::received(net::LinkId link, const net::FrameHead& head) {
  Peer& peer = peers_.at(link);
  peer.silent_ticks = 0;
  received_bytes_ += head.length;
  take(peer, message_of(head));
}

std::span<std::byte> Server::scratch(Peer& peer, const Message& message, std::int64_t most) {
  if (message.bytes > most) refuse(peer, message, "it is too long");
  peer.scratch.resize(static_cast<std::size_t>(message.bytes));
  return peer.scratch;
}

void Server::refuse(const Peer& peer, const Message& message, const char* why) {
  throw Error(ExitCode::kPeerLost, fmt::format("[ps] {} said {} of step {} ({} bytes at {}): {}",
                                               name_of(peer.hello), static_cast<int>(message.what),
                                               message.step, message.bytes, message.offset, why));
}

// `encoded`: the block, if that is what it is.
Push Server::push_of(const Peer& peer, const Message& message, const Piece* encoded) {
  if (encoded == nullptr && message.bytes % static_cast<std::int64_t>(sizeof(float)) != 0)
    refuse(peer, message, "those are no floats");
  return {peer.hello.rank, message.step, message.part, message.offset,
          encoded != nullptr ? encoded->length : floats_of(message)};
}

std::optional<std::span<std::byte>> Server::place_of_push(Peer& peer, const Message& message,
                                                          PushTaker& taker,
                                                          const compress::BlockForm& form) {
  const Piece* encoded = encoded_block(form, taker.shard(), message.offset, message.bytes);
  const auto answer = taker.offer(push_of(peer, message, encoded));
  if (answer.verdict == PushTaker::Verdict::kWait) return std::nullopt;
  if (answer.verdict == PushTaker::Verdict::kTake && encoded == nullptr)
    return std::as_writable_bytes(answer.memory);
  return scratch(peer, message, message.bytes);  // offer() has seen that it is a block
}

void Server::take_push(Peer& peer, const Message& message, PushTaker& taker,
                       const compress::BlockForm& form) {
  const Piece* encoded = encoded_block(form, taker.shard(), message.offset, message.bytes);
  const Push push = push_of(peer, message, encoded);
  if (encoded != nullptr) {
    const auto answer = taker.offer(push);  // it says again where the floats belong
    if (answer.verdict == PushTaker::Verdict::kTake)
      form.decode(encoded->offset, peer.scratch, answer.memory);
  }
  taker.received(push);
}

void Server::heard(net::LinkId link) { peers_.at(link).silent_ticks = 0; }

void Server::left(net::LinkId link, const std::string& why) {
  const Peer& peer = peers_.at(link);
  if (peer.is_worker()) {
    farewells_[peer.hello.rank] = why.empty() ? "it has said goodbye" : why;
    worker_left(peer.hello.rank);
  } else {
    server_left(peer.hello.rank);
  }
  const int rank = peer.hello.rank;
  const bool is_mine_to_call = !peer.is_worker() && rank < index() && peer.has_joined;
  for (auto* places : {&workers_, &servers_})
    std::erase_if(*places, [link](const auto& place) { return place.second == link; });
  peers_.erase(link);
  if (is_mine_to_call) call(rank);
}

void Server::not_reached(const net::Address&, const net::Refusal& refusal) {
  if (refusal.code != ExitCode::kPeersMissing) refused_ = refusal;
}

void Server::say(net::LinkId link, const Message& message, std::span<std::byte> bytes) {
  if (!peers_.at(link).has_joined) return;
  net::Pieces pieces;
  if (!bytes.empty()) pieces.push_back(bytes);
  sent_bytes_ += bytes.size();
  links_->send(link, label_of(message), std::move(pieces), 0);
}

void Server::say_to_worker(int worker, const Message& message, std::span<float> floats) {
  say_to_worker(worker, message, std::as_writable_bytes(floats));
}

void Server::say_to_worker(int worker, const Message& message, std::span<std::byte> bytes) {
  const auto found = workers_.find(worker);
  if (found != workers_.end()) say(found->second, message, bytes);
}

void Server::say_to_workers(const Message& message, std::span<float> floats) {
  for (const auto& [worker, link] : workers_) say(link, message, std::as_writable_bytes(floats));
}

void Server::say_to_server(int server, const Message& message, std::span<std::byte> bytes) {
  const auto found = servers_.find(server);
  if (found != servers_.end()) say(found->second, message, bytes);
}

void Server::say_slots(int worker, std::int64_t step, Shard& shard) {
  for (int slot = 0; slot < shard.num_slots(); ++slot)
    for (const Piece& piece : shard.pieces())
      say_to_worker(worker,
                    {.what = Say::kSlots, .step = step, .part = slot, .offset = piece.offset},
                    Shard::of(shard.slot(slot), piece));
}

void Server::say_to_servers(const Message& message) {
  for (const auto& [server, link] : servers_) say(link, message, {});
}

void Server::resume_workers() {
  for (const auto& [worker, link] : workers_) links_->resume(link);
}

}  // namespace coxswain::ps
