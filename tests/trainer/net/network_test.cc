#include "trainer/net/network.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <thread>

#include "trainer/contract/error.h"

namespace coxswain::net {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

const std::string kSecret(32, 'k');

Hello network_worker(int rank) {
  Hello hello;
  hello.job = "uid-1";
  hello.role = "worker";
  hello.rank = rank;
  hello.world_size = 4;
  return hello;
}

NetworkOptions options_of(const Hello& hello) {
  NetworkOptions options{.hello = hello, .secret = kSecret};
  options.longest_pause = 20ms;
  return options;
}

NetworkOptions listening(const Hello& hello) {
  NetworkOptions options = options_of(hello);
  options.port = 0;
  return options;
}

// One process: a network, and what it was told.
class Side : public NetworkEvents {
 public:
  explicit Side(const NetworkOptions& options) : network(options, *this) {}

  Address address() const { return {"127.0.0.1", network.port()}; }
  LinkId link() const { return links.empty() ? 0 : links.rbegin()->first; }

  std::optional<Refusal> admit(LinkId, const Hello& theirs) override {
    return admits ? admits(theirs) : std::nullopt;
  }
  void joined(LinkId link) override { links[link] = "joined"; }
  std::optional<Pieces> place(LinkId, const FrameHead& message) override {
    if (memory.size() < message.length) return std::nullopt;
    return Pieces{std::as_writable_bytes(std::span(memory).first(message.length))};
  }
  void received(LinkId, const FrameHead& message) override { tags.push_back(message.label.tag); }
  void sent(LinkId, std::uint64_t message) override { ids.push_back(message); }
  void heard(LinkId) override { ++beats; }
  void left(LinkId link, const std::string& why) override {
    links[link] = why.empty() ? "goodbye" : why;
  }
  void not_reached(const Address&, const Refusal& refusal) override { refusals.push_back(refusal); }

  std::function<std::optional<Refusal>(const Hello&)> admits;
  std::map<LinkId, std::string> links;
  std::vector<Refusal> refusals;
  std::vector<std::uint32_t> tags;
  std::vector<std::uint64_t> ids;
  std::string memory;
  int beats = 0;
  Network network;
};

// Polls all sides until it is so; false when it is not after a long while.
bool until(const std::function<bool()>& is_so, std::initializer_list<Side*> sides) {
  const auto end = Clock::now() + 20s;
  while (!is_so()) {
    if (Clock::now() > end) return false;
    bool moved = false;
    for (Side* side : sides) moved = side->network.poll() || moved;
    if (!moved) std::this_thread::sleep_for(100us);
  }
  return true;
}

bool connect(Side& caller, Side& answerer) {
  caller.network.dial(answerer.address());
  return until([&] { return caller.link() != 0 && answerer.link() != 0; }, {&caller, &answerer});
}

std::span<std::byte> bytes_of(std::string& text) { return std::as_writable_bytes(std::span(text)); }

class Encryption : public testing::TestWithParam<bool> {
 protected:
  static NetworkOptions with(NetworkOptions options) {
    options.encrypt = GetParam();
    return options;
  }
};

TEST_P(Encryption, messages_arrive_whole_and_in_order) {
  Side a(with(listening(network_worker(0)))), b(with(options_of(network_worker(1))));
  ASSERT_TRUE(connect(b, a));
  std::string front = "all of it, ", back(3'000'000, 'x'), tail = "the end", reply = "thanks";
  a.memory.resize(4'000'000);
  b.memory.resize(10);
  b.network.send(b.link(), {3, 4, 5}, {bytes_of(front), bytes_of(back), bytes_of(tail)}, 11);
  ASSERT_TRUE(until([&] { return a.tags.size() == 1; }, {&a, &b}));
  EXPECT_EQ(a.memory.substr(0, front.size() + back.size() + tail.size()), front + back + tail);
  b.network.send(b.link(), {4}, {}, 12);
  b.network.send(b.link(), {5}, {bytes_of(tail)}, 13);
  a.network.send(a.link(), {6}, {bytes_of(reply)}, 14);
  ASSERT_TRUE(until([&] { return a.tags.size() == 3 && b.tags.size() == 1; }, {&a, &b}));
  EXPECT_EQ(a.tags, (std::vector<std::uint32_t>{3, 4, 5}));
  EXPECT_EQ(b.ids, (std::vector<std::uint64_t>{11, 12, 13}));
  EXPECT_EQ(b.memory.substr(0, reply.size()), reply);
}

TEST_P(Encryption, what_has_no_place_waits_and_what_is_behind_it) {
  Side a(with(listening(network_worker(0)))), b(with(options_of(network_worker(1))));
  ASSERT_TRUE(connect(b, a));
  std::string text = "text";
  b.network.send(b.link(), {1}, {bytes_of(text)}, 1);
  b.network.send_beat(b.link());  // not needed: something is on its way
  ASSERT_TRUE(until([&] { return a.network.waits(a.link()); }, {&a, &b}));
  b.network.send_beat(b.link());
  ASSERT_FALSE(a.beats > 0 || !a.tags.empty());
  a.memory.resize(4);
  a.network.resume(a.link());
  ASSERT_TRUE(until([&] { return a.beats == 1; }, {&a, &b}));
  EXPECT_EQ(a.memory, text);
}

TEST_P(Encryption, both_say_goodbye) {
  Side a(with(listening(network_worker(0)))), b(with(options_of(network_worker(1))));
  ASSERT_TRUE(connect(b, a));
  b.network.say_goodbye(b.link());
  std::string last = "last";
  b.memory.resize(4);
  a.network.send(a.link(), {9}, {bytes_of(last)}, 1);
  a.network.say_goodbye(a.link());
  ASSERT_TRUE(until([&] { return a.links.begin()->second == "goodbye"; }, {&a, &b}));
  ASSERT_TRUE(until([&] { return b.links.begin()->second == "goodbye"; }, {&a, &b}));
  EXPECT_EQ(b.memory, last);
}

TEST_P(Encryption, who_leaves_without_a_word_is_missed) {
  Side a(with(listening(network_worker(0))));
  {
    Side b(with(options_of(network_worker(1))));
    ASSERT_TRUE(connect(b, a));
  }
  ASSERT_TRUE(until([&] { return a.links.begin()->second != "joined"; }, {&a}));
  EXPECT_EQ(a.links.begin()->second, "it closed the connection");
}

INSTANTIATE_TEST_SUITE_P(Network, Encryption, testing::Bool(),
                         [](const auto& instance) { return instance.param ? "on" : "off"; });

TEST(Network, calls_until_somebody_answers) {
  int port = 0;
  {
    const Side before(listening(network_worker(0)));
    port = before.network.port();
  }
  Side b(options_of(network_worker(1)));
  b.network.dial({"127.0.0.1", port});
  ASSERT_TRUE(until([&] { return b.refusals.size() >= 2; }, {&b}));
  EXPECT_EQ(b.refusals[0], (Refusal{"Connection refused", ExitCode::kPeersMissing}));
  NetworkOptions options = options_of(network_worker(0));
  options.port = port;
  Side a(options);
  EXPECT_TRUE(until([&] { return a.link() != 0 && b.link() != 0; }, {&a, &b}));
}

TEST(Network, a_name_that_does_not_resolve_yet_is_asked_for_again) {
  Side b(options_of(network_worker(1)));
  b.network.dial({"no-such-host.invalid", 1});
  ASSERT_TRUE(until([&] { return b.refusals.size() >= 2; }, {&b}));
  EXPECT_EQ(b.refusals[0].code, ExitCode::kPeersMissing);
  EXPECT_NE(b.refusals[0].why.find("ost not found"), std::string::npos) << b.refusals[0].why;
}

TEST(Network, without_the_key_nobody_comes_in) {
  for (const bool other_job : {false, true}) {
    Side a(listening(network_worker(0)));
    NetworkOptions options = options_of(network_worker(1));
    if (other_job) {
      options.hello.job = "uid-2";
    } else {
      options.secret = std::string(32, 'w');
    }
    Side b(options);
    b.network.dial(a.address());
    ASSERT_TRUE(until([&] { return b.refusals.size() >= 2; }, {&a, &b}));
    EXPECT_EQ(b.refusals[0].code, ExitCode::kPeersMissing);
    EXPECT_NE(b.refusals[0].why.find("did not prove that it belongs to this job"),
              std::string::npos)
        << b.refusals[0].why;
    EXPECT_TRUE(a.links.empty());
  }
}

TEST(Network, who_may_not_come_in_is_told_why) {
  Side a(listening(network_worker(0)));
  Hello other = network_worker(1);
  other.world_size = 2;
  Side b(options_of(other));
  b.network.dial(a.address());
  ASSERT_TRUE(until([&] { return !b.refusals.empty(); }, {&a, &b}));
  EXPECT_EQ(b.refusals[0].code, ExitCode::kBadInput);
  EXPECT_EQ(b.refusals[0].why,
            "worker 0 of attempt 0 refuses worker 1 of attempt 0: the number of ranks differs, 4 "
            "here and 2 there");
  Side c(options_of(network_worker(1)));
  a.admits = [](const Hello&) { return Refusal{"one of them is enough", ExitCode::kBadInput}; };
  c.network.dial(a.address());
  ASSERT_TRUE(until([&] { return !c.refusals.empty(); }, {&a, &c}));
  EXPECT_EQ(c.refusals[0].why, "one of them is enough");
  EXPECT_TRUE(a.links.empty());
}

// A connection to `side` from somebody who is not of the job.
class Stranger {
 public:
  explicit Stranger(const Side& side) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(static_cast<std::uint16_t>(side.network.port()));
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_there_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0;
  }
  ~Stranger() { ::close(socket_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  bool say(const std::string& text) {
    return is_there_ && ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) >= 0;
  }
  bool was_dropped() {
    char byte = 0;
    for (;;) {
      const auto got = recv(socket_, &byte, 1, MSG_DONTWAIT);
      if (got <= 0) return got == 0 || errno == ECONNRESET;
    }
  }

 private:
  int socket_;
  bool is_there_ = false;
};

TEST(Network, strangers_are_sent_away_and_harm_nobody) {
  NetworkOptions options = listening(network_worker(0));
  options.greeting_deadline = 1s;
  Side a(options);
  const HeadBytes hello = encode({FrameKind::kHello, 0, kMaxGreeting});
  const std::string texts[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", std::string(200, '\xff'),
                               std::string("\x16\x03\x01\x40\x00\x01", 6),  // TLS, and no more
                               std::string(reinterpret_cast<const char*>(hello.data()), 16), ""};
  for (const std::string& text : texts) {
    Stranger stranger(a);
    ASSERT_TRUE(text.empty() || stranger.say(text));
    ASSERT_TRUE(until([&] { return stranger.was_dropped(); }, {&a})) << text;
  }
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (int i = 0; i < 200; ++i) {
    crowd.push_back(std::make_unique<Stranger>(a));
    a.network.poll();
  }
  Side b(options_of(network_worker(1)));
  EXPECT_TRUE(connect(b, a));
  EXPECT_EQ(a.links.size(), 1u);
}

TEST(Network, says_when_its_port_is_taken) {
  const Side a(listening(network_worker(0)));
  NetworkOptions options = options_of(network_worker(1));
  options.port = a.network.port();
  try {
    const Side b(options);
    FAIL() << "listens";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kPeersMissing);
    EXPECT_NE(std::string(error.what()).find("Address already in use"), std::string::npos);
  }
}

}  // namespace
}  // namespace coxswain::net
