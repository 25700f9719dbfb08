#include "trainer/ps/sync_client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "trainer/contract/error.h"

namespace coxswain::ps {

namespace {

constexpr int kMostSilentTicks = 10;
constexpr std::size_t kMostNamed = 4;

[[noreturn]] void refuse(const Message& message, const std::string& who) {
  throw Error(ExitCode::kPeerLost,
              fmt::format("[ps] {} said {} of step {} ({} bytes at {}): that is not its part", who,
                          static_cast<int>(message.what), message.step, message.bytes,
                          message.offset));
}

// Links send from memory that may be written, because that is what they receive into.
std::span<std::byte> unconst(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

SyncClient::SyncClient(ClientOptions options, Plan plan, WorkerArrays arrays)
    : options_(std::move(options)),
      plan_(std::move(plan)),
      arrays_(std::move(arrays)),
      servers_(options_.servers.size()) {}

void SyncClient::use(net::Links& links) {
  links_ = &links;
  for (const net::Address& address : options_.servers) links_->dial(address);
}

std::string SyncClient::describe(int server) const {
  const auto index = static_cast<std::size_t>(server);
  return fmt::format("server {} ({}: {})", server, to_text(options_.servers[index]),
                     servers_[index].trouble);
}

void SyncClient::tick() {
  if (refused_) throw Error(refused_->code, "[ps] " + refused_->why);
  std::vector<std::string> missing;
  for (int i = 0; i < std::ssize(servers_); ++i) {
    Server& server = servers_[static_cast<std::size_t>(i)];
    if (server.has_joined) {
      links_->send_beat(server.link);
      if (++server.silent_ticks <= kMostSilentTicks) continue;
      const net::LinkId link = server.link;
      links_->drop(link);
      left(link, fmt::format("it was silent for {} s", kMostSilentTicks));
    }
    const int deadline =
        have_all_been_there_ ? options_.away_deadline : options_.startup_deadline;
    if (++server.away_ticks > deadline && missing.size() < kMostNamed)
      missing.push_back(describe(i));
  }
  if (!missing.empty())
    throw Error(have_all_been_there_ ? ExitCode::kPeerLost : ExitCode::kPeersMissing,
                fmt::format("[ps] lost: {}", fmt::join(missing, ", ")));
  if (has_all() || ++waiting_ticks_ <= options_.step_deadline) return;
  for (int i = 0; i < std::ssize(servers_) && missing.size() < kMostNamed; ++i)
    if (servers_[static_cast<std::size_t>(i)].missing > 0) missing.push_back(describe(i));
  throw Error(ExitCode::kPeerLost,
              fmt::format("[ps] step {} is not done after {} s: waiting for {}", step_,
                          options_.step_deadline, fmt::join(missing, ", ")));
}

bool SyncClient::all_are_there() const {
  return std::ranges::all_of(servers_, &Server::has_joined);
}

bool SyncClient::has_all() const {
  return std::ranges::all_of(servers_, [](const Server& server) { return server.missing == 0; });
}

std::int64_t SyncClient::floats_wanted(int server) const {
  const std::int64_t load = plan_.map.load(server);
  switch (wanted_) {
    case Wanted::kNothing:
      return 0;
    case Wanted::kBegun:
      return 1;  // a word
    case Wanted::kWeights:
      return load + (server == plan_.map.control_server() ? tensor::kControlFloats : 0);
    case Wanted::kSlots:
      return load * plan_.num_slots;
  }
  return 0;
}

void SyncClient::want(Wanted wanted) {
  wanted_ = wanted;
  waiting_ticks_ = 0;
  for (int i = 0; i < std::ssize(servers_); ++i) {
    Server& server = servers_[static_cast<std::size_t>(i)];
    server.pushed.clear();
    server.missing = floats_wanted(i);
  }
}

void SyncClient::hand_over(std::int64_t step, std::int64_t update_count) {
  step_ = step;
  beginning_ = encode(Beginning{plan_.layout, step, update_count});
  want(Wanted::kBegun);
  for (int i = 0; i < std::ssize(servers_); ++i) ask(i);
}

void SyncClient::begin(std::int64_t step, const std::optional<optim::UpdateStep>& terms) {
  step_ = step;
  terms_.reset();
  if (terms) terms_ = {terms->lr, terms->momentum, terms->statistic_parts};
  want(Wanted::kWeights);
  for (int i = 0; terms_ && i < std::ssize(servers_); ++i)
    say(i, {.what = Say::kTerms, .step = step_}, std::as_bytes(std::span(*terms_)));
}

void SyncClient::ask_slots() {
  want(Wanted::kSlots);
  for (int i = 0; i < std::ssize(servers_); ++i) ask(i);
}

void SyncClient::push(const BlockPart& part) {
  const int server = plan_.map.cut(part.offset, 1)[0].server;
  servers_[static_cast<std::size_t>(server)].pushed.push_back(part);
  say_push(server, part);
}

// Over a new connection, too: the server knows what it has.
void SyncClient::ask(int index) {
  Server& server = servers_[static_cast<std::size_t>(index)];
  if (server.missing == 0) return;
  server.missing = floats_wanted(index);
  switch (wanted_) {
    case Wanted::kNothing:
      return;
    case Wanted::kBegun:
      return say_state(index);
    case Wanted::kWeights:
      say(index, {.what = Say::kAgain, .step = step_});
      if (terms_)
        say(index, {.what = Say::kTerms, .step = step_}, std::as_bytes(std::span(*terms_)));
      for (const BlockPart& part : server.pushed) say_push(index, part);
      return;
    case Wanted::kSlots:
      return say(index, {.what = Say::kAskSlots, .step = step_});
  }
}

void SyncClient::say_state(int server) {
  say(server, {.what = Say::kBeginning, .step = step_}, std::as_bytes(std::span(beginning_)));
  for (int array = 0; array <= plan_.num_slots; ++array) {
    const std::span<float> all =
        array == 0 ? arrays_.weights : arrays_.slots[static_cast<std::size_t>(array - 1)];
    for (const Piece& piece : plan_.map.of_server(server))
      say(server, {.what = Say::kState, .step = step_, .part = array, .offset = piece.offset},
          std::as_bytes(all.subspan(static_cast<std::size_t>(piece.offset),
                                    static_cast<std::size_t>(piece.length))));
  }
}

void SyncClient::say_push(int server, const BlockPart& part) {
  say(server, {.what = Say::kPush, .step = step_, .part = part.part, .offset = part.offset},
      std::as_bytes(part.floats));
}

void SyncClient::say(int index, const Message& message, std::span<const std::byte> bytes) {
  const Server& server = servers_[static_cast<std::size_t>(index)];
  if (!server.has_joined) return;  // then it is said when it has
  net::Pieces pieces;
  if (!bytes.empty()) pieces.push_back(unconst(bytes));
  links_->send(server.link, label_of(message), std::move(pieces), 0);
}

std::optional<net::Refusal> SyncClient::admit(net::LinkId link, const net::Hello& theirs) {
  if (theirs.role != "server" || theirs.rank >= std::ssize(servers_))
    return net::Refusal{
        fmt::format("worker {} refuses {}: there is no such server", options_.worker,
                    name_of(theirs))};
  Server& server = servers_[static_cast<std::size_t>(theirs.rank)];
  if (server.link != 0) return net::Refusal{"it is there already", ExitCode::kPeersMissing};
  server.link = link;
  number_of_link_[link] = theirs.rank;
  return std::nullopt;
}

void SyncClient::joined(net::LinkId link) {
  Server& server = server_of(link);
  server.has_joined = true;
  server.silent_ticks = server.away_ticks = 0;
  server.trouble = "connected";
  have_all_been_there_ = have_all_been_there_ || all_are_there();
  ask(number(link));
}

std::optional<net::Pieces> SyncClient::place(net::LinkId link, const net::FrameHead& head) {
  Server& server = server_of(link);
  const Message message = message_of(head);
  if (message.bytes == 0) return net::Pieces{};
  const bool is_wanted = server.missing > 0 && message.step == step_;
  if (is_wanted) return net::Pieces{std::as_writable_bytes(place_of(number(link), message))};
  if (message.bytes > plan_.map.block() * static_cast<std::int64_t>(sizeof(float)))
    refuse(message, describe(number(link)));
  server.scratch.resize(head.length);
  return net::Pieces{server.scratch};
}

std::span<float> SyncClient::place_of(int server, const Message& message) {
  const std::int64_t floats = message.bytes / static_cast<std::int64_t>(sizeof(float));
  const auto piece = [&](std::span<float> all) {
    if (message.offset >= plan_.layout.size()) refuse(message, describe(server));
    const Piece expected = plan_.map.cut(message.offset, plan_.map.block())[0];
    if (expected.server != server || message.offset + floats > plan_.layout.size() ||
        floats > expected.length)
      refuse(message, describe(server));
    return all.subspan(static_cast<std::size_t>(message.offset), static_cast<std::size_t>(floats));
  };
  const bool wants_weights = wanted_ == Wanted::kWeights;
  if (message.what == Say::kWeights && wants_weights) return piece(arrays_.weights);
  if (message.what == Say::kOutcome && wants_weights && floats == tensor::kControlFloats)
    return outcome_;
  if (message.what == Say::kSlots && wanted_ == Wanted::kSlots && message.part < plan_.num_slots)
    return piece(arrays_.slots[static_cast<std::size_t>(message.part)]);
  refuse(message, describe(server));
}

void SyncClient::received(net::LinkId link, const net::FrameHead& head) {
  Server& server = server_of(link);
  server.silent_ticks = 0;
  const Message message = message_of(head);
  if (message.step != step_) return;
  if (message.what == Say::kBegun && wanted_ == Wanted::kBegun) server.missing = 0;
  const std::int64_t floats = message.bytes / static_cast<std::int64_t>(sizeof(float));
  server.missing = std::max<std::int64_t>(0, server.missing - floats);
}

void SyncClient::heard(net::LinkId link) { server_of(link).silent_ticks = 0; }

void SyncClient::left(net::LinkId link, const std::string& why) {
  const int index = number(link);
  Server& server = servers_[static_cast<std::size_t>(index)];
  server.link = 0;
  server.has_joined = false;
  server.trouble = why.empty() ? "it has said goodbye" : why;
  number_of_link_.erase(link);
  links_->dial(options_.servers[static_cast<std::size_t>(index)]);
}

void SyncClient::not_reached(const net::Address& address, const net::Refusal& refusal) {
  if (refusal.code != ExitCode::kPeersMissing) refused_ = refusal;
  for (std::size_t i = 0; i < servers_.size(); ++i)
    if (to_text(options_.servers[i]) == to_text(address)) servers_[i].trouble = refusal.why;
}

}  // namespace coxswain::ps
