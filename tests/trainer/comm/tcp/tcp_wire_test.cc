#include "trainer/comm/tcp/tcp_wire.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

#include "tests/support/thread_communicator.h"
#include "tests/trainer/comm/rank_checks.h"
#include "trainer/comm/wired_communicator.h"

namespace coxswain::comm {
namespace {

using namespace std::chrono_literals;

// Sockets that listen on this machine, one a rank: what whoever starts the ranks gives them.
class Places {
 public:
  explicit Places(int size)
      : Places(std::vector<std::string>(static_cast<std::size_t>(size), "127.0.0.1")) {}
  explicit Places(const std::vector<std::string>& hosts) {
    for (const std::string& host : hosts) {
      const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in place{};
      place.sin_family = AF_INET;
      inet_pton(AF_INET, host.c_str(), &place.sin_addr);
      socklen_t length = sizeof place;
      if (bind(descriptor, reinterpret_cast<sockaddr*>(&place), length) != 0 ||
          listen(descriptor, 64) != 0)
        throw std::runtime_error("no socket");
      getsockname(descriptor, reinterpret_cast<sockaddr*>(&place), &length);
      descriptors_.push_back(descriptor);
      addresses_.push_back({host, ntohs(place.sin_port)});
    }
  }

  TcpOptions of(int rank) const {
    TcpOptions options;
    options.hello.job = "uid-1";
    options.hello.role = "worker";
    options.hello.rank = rank;
    options.hello.world_size = static_cast<int>(addresses_.size());
    options.addresses = addresses_;
    options.secret = std::string(32, 'k');
    options.descriptor = descriptors_[static_cast<std::size_t>(rank)];
    return options;
  }

 private:
  std::vector<int> descriptors_;  // each is the wire's that takes it
  std::vector<net::Address> addresses_;
};

std::unique_ptr<Communicator> join(const TcpOptions& options, WiredOptions wired = {}) {
  return make_wired_communicator([options] { return open_tcp_wire(options); }, std::move(wired));
}

void run_ranks(int size, bool encrypt, const std::function<void(Communicator&)>& body) {
  const Places places(size);
  const auto join_encrypted = [&](int rank) {
    TcpOptions options = places.of(rank);
    options.encrypt = encrypt;
    return join(options);
  };
  test::run_ranks(size, join_encrypted, body);
}

TEST(TcpWire, sums_are_those_of_the_plan) {
  const std::pair<int, bool> worlds[] = {{1, true}, {2, false}, {3, true}, {5, false}};
  for (const auto& [size, encrypt] : worlds) {
    std::atomic<int> wrong = 0;
    run_ranks(size, encrypt, [&](Communicator& communicator) {
      wrong += wrong_sums(communicator, in_rank_order(size), 11);
      wrong += wrong_sums(communicator, halving_tree(8, size), 12);
      wrong += wrong_broadcasts(communicator);
    });
    EXPECT_EQ(wrong, 0) << size << " ranks";
  }
}

// Of ranks on two machines, which are the hosts of their addresses.
TEST(TcpWire, sums_of_machines_are_those_of_the_plan) {
  constexpr std::int64_t kCount = 4'000'001;
  const Places places({"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"});
  std::atomic<int> wrong = 0;
  test::run_ranks(
      4, [&](int rank) { return join(places.of(rank)); },
      [&](Communicator& communicator) {
        wrong += wrong_sums(communicator, in_pairs(4), 11);
        wrong += sum_in_buckets(communicator, in_pairs(4), kCount, 500'000, 12) ==
                         plain_sum(in_pairs(4), kCount, 12)
                     ? 0
                     : 1;
      });
  EXPECT_EQ(wrong, 0);
}

TEST(TcpWire, bits_do_not_depend_on_buckets) {
  constexpr std::int64_t kCount = 400'001;
  const auto plan = in_rank_order(3);
  const auto expected = plain_sum(plan, kCount, 13);
  for (const std::int64_t bucket : {kCount, std::int64_t{65'537}, std::int64_t{9'999}}) {
    std::atomic<int> equal = 0;
    run_ranks(3, true, [&](Communicator& communicator) {
      equal += sum_in_buckets(communicator, plan, kCount, bucket, 13) == expected ? 1 : 0;
    });
    EXPECT_EQ(equal, 3) << "buckets of " << bucket;
  }
}

TEST(TcpWire, who_computes_for_long_is_not_taken_for_dead) {
  const Places places(2);
  const WiredOptions impatient{.peer_deadline = 1500ms};
  const auto run = [&](int rank, std::chrono::milliseconds pause) {
    const auto communicator = join(places.of(rank), impatient);
    std::this_thread::sleep_for(pause);
    std::vector<float> values(300'000, 1.0F);
    communicator->wait(communicator->all_reduce_sum(in_rank_order(2), {{values}, 0}));
    EXPECT_EQ(values.back(), 2.0F);
    communicator->finish();
  };
  std::jthread slow([&] { run(1, 4s); });
  run(0, 0ms);
}

TEST(TcpWire, a_rank_that_ends_is_missed_at_once) {
  const Places places(3);
  std::latch joined(3);
  std::vector<std::string> complaints(2);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        const auto communicator = join(places.of(rank), {.peer_deadline = 60s});
        joined.arrive_and_wait();
        if (rank == 2) return;
        try {
          communicator->barrier();
        } catch (const PeerLost& lost) {
          EXPECT_EQ(lost.code(), ExitCode::kPeerLost);
          complaints[static_cast<std::size_t>(rank)] = lost.what();
        }
        // The other may have missed this one first, which left for the same reason.
      });
    }
  }
  EXPECT_TRUE(std::ranges::any_of(
      complaints,
      [](const std::string& complaint) {
        return complaint ==
               "[comm] rank 2 has closed its connection, in a barrier: its process died";
      }))
      << complaints[0] << complaints[1];
}

std::string error_of(const TcpOptions& options, ExitCode code) {
  try {
    open_tcp_wire(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "opened";
}

TEST(TcpWire, says_who_is_missing_and_why) {
  const Places places(3);
  TcpOptions options = places.of(1);
  options.startup_deadline = 3s;
  options.addresses[0] = {"no-such-host.invalid", 9500};
  const std::string message = error_of(options, ExitCode::kPeersMissing);
  EXPECT_NE(message.find("2 of 3 ranks are missing: rank 0 (no-such-host.invalid:9500: Host not"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("it has not called)"), std::string::npos) << message;
}

TEST(TcpWire, one_of_two_that_are_the_same_rank_is_refused_and_the_other_goes_on) {
  const Places places(3);
  std::latch refused(1);
  std::atomic<int> num_trained = 0;
  const auto train = [&](const TcpOptions& options) {
    try {
      join(options)->finish();
      ++num_trained;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_STREQ(error.what(),
                   "[comm] worker 0 of attempt 0 refuses a second worker 1 of attempt 0: each rank "
                   "may be there once");
      refused.count_down();
    }
  };
  TcpOptions same = places.of(1);
  same.descriptor = dup(same.descriptor);  // whichever stays listens where rank 2 calls
  {
    std::jthread zero([&] { train(places.of(0)); });
    std::jthread one([&] { train(places.of(1)); });
    std::jthread another([&] { train(same); });
    refused.wait();
    train(places.of(2));
  }
  EXPECT_EQ(num_trained, 3);
}

TEST(TcpWire, another_training_is_refused) {
  const Places places(2);
  TcpOptions first = places.of(0);
  first.startup_deadline = 1s;
  std::jthread zero([&] {
    const std::string message = error_of(first, ExitCode::kPeersMissing);
    EXPECT_NE(message.find("1 of 2 ranks is missing"), std::string::npos) << message;
  });
  TcpOptions other = places.of(1);
  other.hello.fingerprint = "another";
  EXPECT_EQ(error_of(other, ExitCode::kBadInput),
            "[comm] worker 0 of attempt 0 refuses worker 1 of attempt 0: the fingerprint of the "
            "training differs,  here and another there");
}

}  // namespace
}  // namespace coxswain::comm
