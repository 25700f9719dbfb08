#include "trainer/comm/wired_communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <thread>

#include "tests/support/thread_communicator.h"
#include "tests/trainer/comm/rank_checks.h"
#include "trainer/comm/exchange.h"

namespace coxswain::comm {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST(WiredCommunicator, sums_one_part_a_rank_in_rank_order) {
  for (int size = 1; size <= 9; ++size) {
    std::atomic<int> wrong = 0;
    test::run_ranks(size, [&](Communicator& communicator) {
      wrong += wrong_sums(communicator, in_rank_order(size), 11);
    });
    EXPECT_EQ(wrong, 0) << size << " ranks";
  }
}

TEST(WiredCommunicator, sums_the_halving_tree_with_uneven_parts) {
  for (int size = 1; size <= 8; ++size) {
    std::atomic<int> wrong = 0;
    test::run_ranks(size, [&](Communicator& communicator) {
      wrong += wrong_sums(communicator, halving_tree(8, size), 12);
    });
    EXPECT_EQ(wrong, 0) << size << " ranks";
  }
}

TEST(WiredCommunicator, machines_sum_by_way_of_one_rank_each) {
  for (const std::vector<int>& machines : {std::vector<int>{0, 0, 1},
                                           {0, 0, 1, 1},
                                           {0, 1, 0, 1},
                                           {0, 0, 0, 1, 2, 2},
                                           {0, 0, 0, 0, 1, 1, 1, 1}}) {
    const int size = static_cast<int>(machines.size());
    for (const ReductionPlan& plan :
         {in_pairs(size), in_rank_order(size), halving_tree(16, size)}) {
      test::ThreadNetwork network(size, 100us, machines);
      std::atomic<int> wrong = 0;
      test::run_ranks(
          size, [&](int rank) { return network.join(rank); },
          [&](Communicator& communicator) {
            wrong += wrong_sums(communicator, plan, 14);
            const std::int64_t count = 400'001;
            wrong +=
                sum_in_buckets(communicator, plan, count, 65'537, 15) == plain_sum(plan, count, 15)
                    ? 0
                    : 1;
          });
      EXPECT_EQ(wrong, 0) << size << " ranks";
    }
  }
}

// How many floats leave a machine in one sum.
TEST(WiredCommunicator, machines_send_each_sum_once) {
  constexpr std::int64_t kCount = 1 << 20;
  const std::vector<int> machines = {0, 0, 0, 0, 1, 1, 1, 1};
  test::ThreadNetwork network(8, {}, machines);
  test::run_ranks(
      8, [&](int rank) { return network.join(rank); },
      [&](Communicator& communicator) {
        sum_in_buckets(communicator, in_pairs(8), kCount, kCount, 16);
      });
  // Half of the machine's sums to their owners on the other, half of all sums back.
  EXPECT_EQ(network.bytes_between(0, 1), kCount * sizeof(float));
}

TEST(WiredCommunicator, bits_do_not_depend_on_buckets) {
  constexpr std::int64_t kCount = 400'001;
  for (const int size : {3, 4}) {
    const auto plan = in_rank_order(size);
    const auto expected = plain_sum(plan, kCount, 13);
    for (const std::int64_t bucket : {kCount, std::int64_t{65'537}, std::int64_t{9'999}}) {
      std::atomic<int> equal = 0;
      test::run_ranks(size, [&](Communicator& communicator) {
        equal += sum_in_buckets(communicator, plan, kCount, bucket, 13) == expected ? 1 : 0;
      });
      EXPECT_EQ(equal, size) << size << " ranks, buckets of " << bucket;
    }
  }
}

TEST(WiredCommunicator, broadcasts_from_every_root) {
  for (const int size : {1, 2, 3, 5, 8}) {
    std::atomic<int> wrong = 0;
    test::run_ranks(size, [&](Communicator& c) { wrong += wrong_broadcasts(c); });
    EXPECT_EQ(wrong, 0) << size << " ranks";
  }
}

TEST(WiredCommunicator, nobody_passes_a_barrier_before_all_have_come) {
  constexpr int kRanks = 5;
  std::atomic<int> come = 0;
  std::atomic<int> too_early = 0;
  test::run_ranks(kRanks, [&](Communicator& communicator) {
    for (int round = 1; round <= 20; ++round) {
      ++come;
      communicator.barrier();
      if (come < round * kRanks) ++too_early;
      communicator.barrier();
    }
  });
  EXPECT_EQ(too_early, 0);
}

TEST(WiredCommunicator, more_can_be_asked_than_the_queue_holds) {
  constexpr int kSums = 500;
  std::atomic<int> wrong = 0;
  test::run_ranks(2, [&](Communicator& communicator) {
    std::vector<float> values(kSums, 1.0F);
    std::vector<Ticket> tickets;
    for (int i = 0; i < kSums; ++i) {
      const auto value = std::span(values).subspan(static_cast<std::size_t>(i), 1);
      tickets.push_back(communicator.all_reduce_sum(in_rank_order(2), {{value}, i}));
    }
    for (const Ticket ticket : tickets) communicator.wait(ticket);
    for (const float value : values) wrong += value == 2.0F ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0);
}

// Three ranks, of which the last one stops. What the other two throw while they do `work`.
struct Loss {
  int rank = -1;
  std::string message;
  double after = 0;  // seconds after the stop
  int told = -1;     // by on_lost
};

std::vector<Loss> losses_while(const std::function<void(Communicator&)>& work) {
  test::ThreadNetwork network(3);
  std::vector<Loss> losses(2);
  std::latch stopped(1);
  const auto stop = [&] {
    const auto communicator = network.join(2);
    communicator->barrier();
    network.stop(2);
    stopped.count_down();
  };
  const auto lose = [&](int rank, Loss& loss) {
    const auto communicator =
        network.join(rank, {.peer_deadline = 400ms,
                            .on_lost = [&](const PeerLost& lost) { loss.told = lost.rank(); }});
    communicator->barrier();
    stopped.wait();
    const auto start = Clock::now();
    try {
      work(*communicator);
    } catch (const PeerLost& lost) {
      loss.rank = lost.rank();
      loss.message = lost.what();
    }
    loss.after = seconds_since(start);
  };
  std::jthread rank_0(lose, 0, std::ref(losses[0]));
  std::jthread rank_1(lose, 1, std::ref(losses[1]));
  stop();
  rank_0.join();
  rank_1.join();
  return losses;
}

void expect_rank_2_lost(const std::vector<Loss>& losses, const std::string& doing) {
  for (const Loss& loss : losses) {
    EXPECT_EQ(loss.rank, 2);
    EXPECT_EQ(loss.told, 2);
    EXPECT_LT(loss.after, 1.4);
    EXPECT_NE(loss.message.find("rank 2 has been silent for 0."), std::string::npos)
        << loss.message;
    EXPECT_NE(loss.message.find(doing), std::string::npos) << loss.message;
  }
}

TEST(WiredCommunicator, names_a_lost_peer_in_an_all_reduce) {
  const auto losses = losses_while([](Communicator& communicator) {
    std::vector<float> values(100'000, 1.0F);
    communicator.wait(communicator.all_reduce_sum(in_rank_order(3), {{values}, 0}));
  });
  expect_rank_2_lost(losses, "in an all-reduce");
}

TEST(WiredCommunicator, names_a_lost_peer_in_a_barrier) {
  expect_rank_2_lost(losses_while([](Communicator& c) { c.barrier(); }), "in a barrier");
}

TEST(WiredCommunicator, names_a_lost_peer_in_a_broadcast) {
  std::vector<std::byte> bytes(2 * 10);
  const auto losses = losses_while([&](Communicator& communicator) {
    const auto own =
        std::span(bytes).subspan(10 * static_cast<std::size_t>(communicator.rank()), 10);
    communicator.broadcast(own, 2);
  });
  expect_rank_2_lost(losses, "in a broadcast");
}

TEST(WiredCommunicator, names_a_lost_peer_after_a_long_computation) {
  const auto losses = losses_while([](Communicator& communicator) {
    std::this_thread::sleep_for(900ms);
    communicator.barrier();
  });
  expect_rank_2_lost(losses, "in a barrier");
}

// Rank 0 lives and never comes; what the other two say of it.
std::vector<std::string> complaints_while(const std::function<void(Communicator&)>& work) {
  test::ThreadNetwork network(3);
  std::vector<std::string> complaints(2);
  std::latch done(2);
  const WiredOptions options{.peer_deadline = 1500ms, .step_deadline = 100ms};
  const auto wait = [&](int rank) {
    const auto communicator = network.join(rank, options);
    try {
      work(*communicator);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kPeerLost);
      complaints[static_cast<std::size_t>(rank - 1)] = error.what();
    }
    done.count_down();
    done.wait();  // leaving is no reason for the other to complain
  };
  const auto late = network.join(0, options);
  std::jthread rank_1(wait, 1);
  std::jthread rank_2(wait, 2);
  done.wait();
  return complaints;
}

void expect_rank_0_late(const std::vector<std::string>& complaints) {
  for (const std::string& complaint : complaints) {
    EXPECT_NE(complaint.find("rank 0 lives, but has kept the others waiting"), std::string::npos)
        << complaint;
  }
}

TEST(WiredCommunicator, a_broadcast_is_not_waited_for_without_end) {
  std::vector<std::byte> bytes(2 * 10);
  expect_rank_0_late(complaints_while([&](Communicator& communicator) {
    const auto at = 10 * static_cast<std::size_t>(communicator.rank() - 1);
    communicator.broadcast(std::span(bytes).subspan(at, 10), 0);
  }));
}

// Of one number, which rank 0 owns: nobody owes the others a part.
TEST(WiredCommunicator, a_small_sum_is_not_waited_for_without_end) {
  expect_rank_0_late(complaints_while([](Communicator& communicator) {
    std::vector<float> value(1, 1.0F);
    communicator.wait(communicator.all_reduce_sum(in_rank_order(3), {{value}, 0}));
  }));
}

TEST(Exchange, knows_who_is_late_and_who_may_only_pass_it_on) {
  const auto late_for = [](int rank, const std::function<std::unique_ptr<Exchange>()>& make) {
    test::ThreadNetwork network(4);
    const auto wire = network.open(rank);
    const auto exchange = make();
    exchange->start(*wire);
    // What was sent is taken.
    for (const MessageId id : wire->poll().finished) exchange->finished(*wire, id);
    return exchange->waits_for();
  };
  std::vector<std::byte> bytes(8);
  const auto broadcast = [&] { return make_broadcast_exchange(0, bytes, 0); };
  EXPECT_EQ(late_for(0, broadcast), std::nullopt);
  EXPECT_EQ(late_for(1, broadcast), (Late{0, 1}));
  EXPECT_EQ(late_for(2, broadcast), (Late{0, 1}));
  EXPECT_EQ(late_for(3, broadcast), (Late{2, 2}));
  EXPECT_EQ(late_for(0, [] { return make_barrier_exchange(0); }), (Late{1, 0}));
  EXPECT_EQ(late_for(2, [] { return make_barrier_exchange(0); }), (Late{0, 0}));
  std::vector<float> value(1);
  Staging staging;
  const auto plan = std::make_shared<const ReductionPlan>(in_rank_order(4));
  const auto sum = [&] { return make_sum_exchange(0, plan, {{value}, 0}, staging); };
  EXPECT_EQ(late_for(0, sum), (Late{1, 0}));
  EXPECT_EQ(late_for(3, sum), (Late{0, 1}));
  const auto pairs = [&] {
    return make_machine_sum_exchange(0, plan, {0, 0, 1, 1}, {{value}, 0}, staging);
  };
  EXPECT_EQ(late_for(0, pairs), (Late{1, 0}));  // whose part it is to add
  EXPECT_EQ(late_for(1, pairs), (Late{0, 3}));  // who waits for the other machine
  EXPECT_EQ(late_for(2, pairs), (Late{3, 0}));
}

TEST(WiredCommunicator, reports_a_late_rank_once) {
  test::ThreadNetwork network(2);
  std::mutex mutex;
  std::vector<int> late;
  const auto run = [&](int rank, std::chrono::milliseconds pause) {
    const auto communicator = network.join(rank, {.on_late = [&](double seconds, int who) {
                                             const std::lock_guard lock(mutex);
                                             EXPECT_GE(seconds, 1.0);
                                             late.push_back(who);
                                           }});
    std::this_thread::sleep_for(pause);
    std::vector<float> values(100'000, 1.0F);
    communicator->wait(communicator->all_reduce_sum(in_rank_order(2), {{values}, 0}));
    communicator->finish();
  };
  std::jthread slow([&] { run(1, 1300ms); });
  run(0, 0ms);
  slow.join();
  EXPECT_EQ(late, std::vector<int>{1});
}

TEST(WiredCommunicator, says_when_the_ranks_do_not_come_together) {
  const auto leave = std::make_shared<std::latch>(1);  // shared: the thread is left behind
  const auto never_open = [leave]() -> std::unique_ptr<Wire> {
    leave->wait();
    throw Error(ExitCode::kInternal, "given up");
  };
  try {
    make_wired_communicator(never_open, {.startup_deadline = 50ms});
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kPeersMissing);
    EXPECT_NE(std::string(error.what()).find("did not find each other"), std::string::npos);
  }
  leave->count_down();
}

TEST(WiredCommunicator, passes_on_why_it_could_not_open) {
  const auto broken = []() -> std::unique_ptr<Wire> {
    throw Error(ExitCode::kUsage, "[comm] no such network");
  };
  try {
    make_wired_communicator(broken, {});
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_STREQ(error.what(), "[comm] no such network");
  }
}

}  // namespace
}  // namespace coxswain::comm
