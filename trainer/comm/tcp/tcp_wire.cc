#include "trainer/comm/tcp/tcp_wire.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "trainer/contract/error.h"

namespace coxswain::comm {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostNamed = 4;  // of the missing
constexpr auto kFirstWord = std::chrono::seconds(5);
constexpr auto kNextWord = std::chrono::seconds(30);
constexpr auto kNap = std::chrono::microseconds(200);
constexpr auto kGoodbyeDeadline = std::chrono::seconds(5);

class TcpWire final : public Wire, private net::NetworkEvents {
 public:
  explicit TcpWire(const TcpOptions& options);
  int rank() const override { return options_.hello.rank; }
  int size() const override { return options_.hello.world_size; }
  std::vector<int> machines() const override;
  void send(int peer, int tag, const Pieces& pieces, MessageId id) override;
  void receive(int peer, int tag, const Pieces& pieces, MessageId id) override;
  void send_beats() override;
  News poll() override;
  void close() override;

 private:
  struct Expected {
    int tag = 0;
    Pieces pieces;
    MessageId id = 0;
  };
  struct Peer {
    net::LinkId link = 0;  // 0: none
    bool has_joined = false;
    std::deque<Expected> expected;
    MessageId arriving = 0;
    std::string trouble;  // why it has not joined
  };

  net::NetworkOptions network_options() const;
  void await_all();
  std::string missing() const;
  std::size_t num_joined() const;
  Peer& peer_of(net::LinkId link) { return peers_[static_cast<std::size_t>(rank_of(link))]; }
  int rank_of(net::LinkId link) const { return rank_of_link_.at(link); }

  std::optional<net::Refusal> admit(net::LinkId link, const net::Hello& theirs) override;
  void joined(net::LinkId link) override;
  std::optional<net::Pieces> place(net::LinkId link, const net::FrameHead& message) override;
  void received(net::LinkId link, const net::FrameHead& message) override;
  void sent(net::LinkId link, std::uint64_t message) override;
  void heard(net::LinkId link) override;
  void left(net::LinkId link, const std::string& why) override;
  void not_reached(const net::Address& address, const net::Refusal& refusal) override;

  const TcpOptions options_;
  std::vector<Peer> peers_;  // by rank
  std::map<net::LinkId, int> rank_of_link_;
  std::optional<net::Refusal> refused_;
  News news_;
  enum class Life { kOpening, kOpen, kClosing } life_ = Life::kOpening;
  net::Network network_;  // last: it calls what stands above
};

TcpWire::TcpWire(const TcpOptions& options)
    : options_(options),
      peers_(static_cast<std::size_t>(options.hello.world_size)),
      network_(network_options(), *this) {
  for (int peer = 0; peer < rank(); ++peer)
    network_.dial(options_.addresses[static_cast<std::size_t>(peer)]);
  await_all();
  life_ = Life::kOpen;
  network_.stop_dialing();
  network_.stop_listening();
}

net::NetworkOptions TcpWire::network_options() const {
  net::NetworkOptions options{
      .hello = options_.hello, .secret = options_.secret, .encrypt = options_.encrypt};
  options.descriptor = options_.descriptor;
  if (options.descriptor < 0)
    options.port = options_.addresses[static_cast<std::size_t>(rank())].port;
  return options;
}

std::size_t TcpWire::num_joined() const {
  return static_cast<std::size_t>(std::ranges::count(peers_, true, &Peer::has_joined));
}

void TcpWire::await_all() {
  const auto start = Clock::now();
  auto next_word = start + kFirstWord;
  while (num_joined() + 1 < peers_.size()) {
    if (!network_.poll()) std::this_thread::sleep_for(kNap);
    if (refused_) throw Error(refused_->code, "[comm] " + refused_->why);
    const auto now = Clock::now();
    if (now - start > options_.startup_deadline)
      throw Error(ExitCode::kPeersMissing,
                  fmt::format("[comm] after {:.0f} s {}",
                              std::chrono::duration<double>(now - start).count(), missing()));
    if (now > next_word && options_.on_waiting) {
      options_.on_waiting(missing());
      next_word = now + kNextWord;
    }
  }
}

std::string TcpWire::missing() const {
  std::vector<std::string> names;
  for (int peer = 0; peer < size(); ++peer) {
    const Peer& state = peers_[static_cast<std::size_t>(peer)];
    if (peer == rank() || state.has_joined) continue;
    if (names.size() < kMostNamed)
      names.push_back(fmt::format("rank {} ({}: {})", peer,
                                  to_text(options_.addresses[static_cast<std::size_t>(peer)]),
                                  state.trouble.empty() ? "it has not called" : state.trouble));
  }
  const std::size_t count = peers_.size() - 1 - num_joined();
  return fmt::format("{} of {} ranks {} missing: {}{}", count, size(), count == 1 ? "is" : "are",
                     fmt::join(names, ", "), count > names.size() ? ", ..." : "");
}

// A machine is the host of an address.
std::vector<int> TcpWire::machines() const {
  std::map<std::string, int> numbers;
  std::vector<int> result;
  for (const net::Address& address : options_.addresses)
    result.push_back(
        numbers.try_emplace(address.host, static_cast<int>(numbers.size())).first->second);
  return result;
}

void TcpWire::send(int peer, int tag, const Pieces& pieces, MessageId id) {
  network_.send(peers_[static_cast<std::size_t>(peer)].link,
                {.tag = static_cast<std::uint32_t>(tag)}, pieces, id);
}

void TcpWire::receive(int peer, int tag, const Pieces& pieces, MessageId id) {
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  from.expected.push_back({tag, pieces, id});
  network_.resume(from.link);
}

void TcpWire::send_beats() {
  for (const Peer& peer : peers_) network_.send_beat(peer.link);
}

News TcpWire::poll() {
  if (!network_.poll()) std::this_thread::yield();
  // Whose message waits here for its place lives: its beats lie behind it.
  for (const auto& [link, rank] : rank_of_link_)
    if (network_.waits(link)) news_.beats.push_back(rank);
  return std::exchange(news_, {});
}

void TcpWire::close() {
  life_ = Life::kClosing;
  for (const Peer& peer : peers_) network_.say_goodbye(peer.link);
  const auto deadline = Clock::now() + kGoodbyeDeadline;
  while (!rank_of_link_.empty() && Clock::now() < deadline)
    if (!network_.poll()) std::this_thread::sleep_for(kNap);
}

std::optional<net::Refusal> TcpWire::admit(net::LinkId link, const net::Hello& theirs) {
  if (theirs.role != options_.hello.role || theirs.rank >= size())
    return net::Refusal{fmt::format("{} refuses {}: there is no such rank", name_of(options_.hello),
                                    name_of(theirs))};
  Peer& peer = peers_[static_cast<std::size_t>(theirs.rank)];
  if (theirs.rank == rank() || peer.link != 0)
    return net::Refusal{fmt::format("{} refuses a second {}: each rank may be there once",
                                    name_of(options_.hello), name_of(theirs))};
  peer.link = link;
  rank_of_link_[link] = theirs.rank;
  return std::nullopt;
}

void TcpWire::joined(net::LinkId link) { peer_of(link).has_joined = true; }

std::optional<net::Pieces> TcpWire::place(net::LinkId link, const net::FrameHead& message) {
  Peer& peer = peer_of(link);
  const auto found =
      std::ranges::find(peer.expected, static_cast<int>(message.label.tag), &Expected::tag);
  if (found == peer.expected.end()) return std::nullopt;
  std::uint64_t length = 0;
  for (const auto& piece : found->pieces) length += piece.size();
  if (length != message.length)
    throw Error(ExitCode::kInternal,
                fmt::format("[comm] {} bytes came where {} were expected", message.length, length));
  Pieces pieces = std::move(found->pieces);
  peer.arriving = found->id;
  peer.expected.erase(found);
  return pieces;
}

void TcpWire::received(net::LinkId link, const net::FrameHead&) {
  news_.finished.push_back(peer_of(link).arriving);
  news_.beats.push_back(rank_of(link));
}

void TcpWire::sent(net::LinkId, std::uint64_t message) { news_.finished.push_back(message); }

void TcpWire::heard(net::LinkId link) { news_.beats.push_back(rank_of(link)); }

void TcpWire::left(net::LinkId link, const std::string& why) {
  const int rank = rank_of(link);
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  rank_of_link_.erase(link);
  peer.link = 0;
  if (life_ == Life::kOpening) {
    peer.has_joined = false;  // another may take its place
    peer.trouble = why;
  } else if (life_ == Life::kOpen) {
    news_.ended.push_back(rank);
  }
}

void TcpWire::not_reached(const net::Address& address, const net::Refusal& refusal) {
  if (refusal.code != ExitCode::kPeersMissing) refused_ = refusal;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank)
    if (to_text(options_.addresses[rank]) == to_text(address)) peers_[rank].trouble = refusal.why;
}

}  // namespace

std::unique_ptr<Wire> open_tcp_wire(const TcpOptions& options) {
  return std::make_unique<TcpWire>(options);
}

}  // namespace coxswain::comm
