#include "trainer/ps/client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "trainer/contract/error.h"

namespace coxswain::ps {

namespace {

constexpr int kMostSilentTicks = 10;
constexpr std::size_t kMostNamed = 4;
constexpr std::int64_t kMostThrownAway = std::int64_t{1} << 20;  // bytes of one message

// Links take what they send as memory that may be written, since that is what they receive into.
std::span<std::byte> unconst(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

Client::Client(ClientOptions options)
    : options_(std::move(options)), servers_(options_.servers.size()) {}

void Client::use(net::Links& links) {
  links_ = &links;
  for (const net::Address& address : options_.servers) links_->dial(address);
}

void Client::tick() {
  if (refused_) throw Error(refused_->code, "[ps] " + refused_->why);
  std::vector<int> away, slow;
  for (int i = 0; i < num_servers(); ++i) {
    Server& server = servers_[static_cast<std::size_t>(i)];
    if (server.has_joined) {
      links_->send_beat(server.link);
      if (++server.silent_ticks > kMostSilentTicks) {
        const net::LinkId link = server.link;
        links_->drop(link);
        left(link, fmt::format("it was silent for {} s", kMostSilentTicks));
      }
    }
    server.away_ticks = server.has_joined ? 0 : server.away_ticks + 1;
    server.waiting_ticks = waits_for(i) ? server.waiting_ticks + 1 : 0;
    if (server.away_ticks >
        (have_all_been_there_ ? options_.away_deadline : options_.startup_deadline))
      away.push_back(i);
    if (server.waiting_ticks > options_.answer_deadline) slow.push_back(i);
  }
  require_prompt(away, have_all_been_there_ ? ExitCode::kPeerLost : ExitCode::kPeersMissing,
                 "lost");
  require_prompt(slow, ExitCode::kPeerLost, "no answer in time from");
}

void Client::require_prompt(const std::vector<int>& late, ExitCode code, const char* what) const {
  if (late.empty()) return;
  std::vector<std::string> names;
  for (const int server : late)
    if (names.size() < kMostNamed) names.push_back(describe(server));
  throw Error(code, fmt::format("[ps] {}: {}{}", what, fmt::join(names, ", "),
                                late.size() > names.size() ? ", ..." : ""));
}

std::string Client::describe(int server) const {
  const auto index = static_cast<std::size_t>(server);
  return fmt::format("server {} ({}: {})", server, to_text(options_.servers[index]),
                     servers_[index].trouble);
}

bool Client::all_are_there() const { return std::ranges::all_of(servers_, &Server::has_joined); }

void Client::say(int index, const Message& message, std::span<const std::byte> bytes) {
  const Server& server = servers_[static_cast<std::size_t>(index)];
  if (!server.has_joined) return;
  net::Pieces pieces;
  if (!bytes.empty()) pieces.push_back(unconst(bytes));
  links_->send(server.link, label_of(message), std::move(pieces), 0);
}

void Client::say_state(int server, const Plan& plan, const WorkerArrays& arrays, std::int64_t step,
                       std::span<const std::int64_t> beginning) {
  say(server, {.what = Say::kBeginning, .step = step}, std::as_bytes(beginning));
  for (int array = 0; array <= plan.num_slots; ++array) {
    const std::span<float> all =
        array == 0 ? arrays.weights : arrays.slots[static_cast<std::size_t>(array - 1)];
    for (const Piece& piece : plan.map.of_server(server))
      say(server, {.what = Say::kState, .step = step, .part = array, .offset = piece.offset},
          std::as_bytes(all.subspan(static_cast<std::size_t>(piece.offset),
                                    static_cast<std::size_t>(piece.length))));
  }
}

void Client::refuse(int server, const Message& message) const {
  throw Error(ExitCode::kPeerLost,
              fmt::format("[ps] {} said {} of step {} ({} bytes at {}): that is not its part",
                          describe(server), static_cast<int>(message.what), message.step,
                          message.bytes, message.offset));
}

std::span<std::byte> Client::piece_of(const Plan& plan, std::span<float> all, int server,
                                      const Message& message) const {
  if (message.offset + floats_of(message) > plan.layout.size()) refuse(server, message);
  const std::vector<Piece> pieces = plan.map.cut(message.offset, floats_of(message));
  if (pieces.size() != 1 || pieces[0].server != server) refuse(server, message);
  return std::as_writable_bytes(all.subspan(static_cast<std::size_t>(message.offset),
                                            static_cast<std::size_t>(floats_of(message))));
}

std::optional<net::Refusal> Client::admit(net::LinkId link, const net::Hello& theirs) {
  if (theirs.role != "server" || theirs.rank >= num_servers())
    return net::Refusal{fmt::format("worker {} refuses {}: there is no such server",
                                    options_.worker, name_of(theirs))};
  Server& server = servers_[static_cast<std::size_t>(theirs.rank)];
  if (server.link != 0) return net::Refusal{"it is there already", ExitCode::kPeersMissing};
  server.link = link;
  number_of_link_[link] = theirs.rank;
  return std::nullopt;
}

void Client::joined(net::LinkId link) {
  Server& server = server_of(link);
  server.has_joined = true;
  server.silent_ticks = server.away_ticks = server.waiting_ticks = 0;
  server.trouble = "connected";
  have_all_been_there_ = have_all_been_there_ || all_are_there();
  server_joined(number(link));
}

std::optional<net::Pieces> Client::place(net::LinkId link, const net::FrameHead& head) {
  const Message message = message_of(head);
  if (const auto memory = place_of(number(link), message)) return net::Pieces{*memory};
  if (message.bytes > kMostThrownAway) refuse(number(link), message);
  Server& server = server_of(link);
  server.scratch.resize(head.length);
  return net::Pieces{server.scratch};
}

void Client::received(net::LinkId link, const net::FrameHead& head) {
  Server& server = server_of(link);
  server.silent_ticks = server.waiting_ticks = 0;
  take(number(link), message_of(head));
}

void Client::heard(net::LinkId link) { server_of(link).silent_ticks = 0; }

void Client::left(net::LinkId link, const std::string& why) {
  const int index = number(link);
  Server& server = servers_[static_cast<std::size_t>(index)];
  const bool had_joined = std::exchange(server.has_joined, false);
  server.link = 0;
  server.trouble = why.empty() ? "it has said goodbye" : why;
  number_of_link_.erase(link);
  if (had_joined) links_->dial(options_.servers[static_cast<std::size_t>(index)]);
}

void Client::not_reached(const net::Address& address, const net::Refusal& refusal) {
  if (refusal.code != ExitCode::kPeersMissing) refused_ = refusal;
  for (std::size_t i = 0; i < servers_.size(); ++i)
    if (to_text(options_.servers[i]) == to_text(address)) servers_[i].trouble = refusal.why;
}

}  // namespace coxswain::ps
