#include "operator/inspect/estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <tuple>

#include "tests/support/test_flags.h"

namespace coxswain::inspect {
namespace {

// ResNet-50 in float32 at 100 images/s a rank: 25.6 million parameters.
Work resnet50() {
  Work work;
  work.samples_per_second = 100;
  work.batch = 32;
  work.gradient_bytes = 102.2e6;
  work.samples_in_all = 1.28e6;
  work.cores_in_turns = 0;  // a GPU
  return work;
}

constexpr Network kTenGigabit{1.1e9, 50e-6};

TEST(Estimate, one_worker_is_as_fast_as_a_rank_alone) {
  const Estimate one = estimate(resnet50(), kTenGigabit, 1);
  EXPECT_DOUBLE_EQ(one.samples_per_second, 100);
  EXPECT_DOUBLE_EQ(one.efficiency, 1);
  EXPECT_DOUBLE_EQ(one.seconds, 12'800);
  EXPECT_DOUBLE_EQ(one.core_hours, 12'800 / 3600.0);
}

TEST(Estimate, sums_hide_behind_backward_until_the_network_is_too_slow) {
  EXPECT_GT(estimate(resnet50(), kTenGigabit, 8).efficiency, 0.9);
  const Network slow{125e6 / 10, 50e-6};  // 100 Mb/s: 102 MB take 8 s each way
  const Estimate eight = estimate(resnet50(), slow, 8);
  EXPECT_NEAR(eight.step_seconds, 2 * 7.0 / 8 * 102.2e6 / 12.5e6 + 0.32 / 3, 0.5);
  EXPECT_LT(eight.efficiency, 0.05);
}

TEST(Estimate, more_workers_are_faster_and_less_efficient) {
  for (const Exchange exchange :
       {Exchange::kAllReduce, Exchange::kParameterServer, Exchange::kAsynchronous}) {
    Work work = resnet50();
    work.exchange = exchange;
    double rate = 0, efficiency = 2;
    for (const int workers : {2, 4, 8, 16, 32}) {
      const Estimate one = estimate(work, kTenGigabit, workers);
      EXPECT_GT(one.samples_per_second, rate) << workers;
      EXPECT_LE(one.efficiency, efficiency + 1e-9) << workers;
      rate = one.samples_per_second;
      efficiency = one.efficiency;
    }
  }
}

TEST(Estimate, ends_with_the_samples_or_the_steps_whichever_are_over_first) {
  Work work = resnet50();
  work.steps_in_all = 10;
  EXPECT_DOUBLE_EQ(estimate(work, kTenGigabit, 1).seconds, 3.2);
  work.samples_in_all = 0;
  EXPECT_DOUBLE_EQ(estimate(work, kTenGigabit, 1).seconds, 3.2);
  work.samples_in_all = 100;
  EXPECT_DOUBLE_EQ(estimate(work, kTenGigabit, 1).seconds, 1);
}

TEST(Estimate, gradients_in_fewer_bytes_take_a_slow_network_less_long) {
  const Network slow{125e6 / 10, 50e-6};
  for (const Exchange exchange : {Exchange::kAllReduce, Exchange::kParameterServer}) {
    Work work = resnet50();
    work.exchange = exchange;
    const double whole = estimate(work, slow, 4).step_seconds;
    work.sent_share = 0.5;
    const double halves = estimate(work, slow, 4).step_seconds;
    const bool pulls = exchange == Exchange::kParameterServer;  // weights, exactly
    EXPECT_NEAR(halves / whole, pulls ? 0.75 : 0.5, 0.03);
  }
}

TEST(Estimate, a_global_batch_leaves_each_rank_less_to_compute) {
  Work work = resnet50();
  work.batch = 256;
  work.batch_is_global = true;
  const Estimate eight = estimate(work, kTenGigabit, 8);
  EXPECT_DOUBLE_EQ(eight.step_seconds, estimate(resnet50(), kTenGigabit, 8).step_seconds);
  work.accumulate = 8;
  EXPECT_GE(estimate(work, kTenGigabit, 8).efficiency, eight.efficiency)
      << "sums are made once in eight batches";
}

// What tests/bench/estimate measured of cores that also exchange: singa-cnn, 64 images a rank and
// 4.4 ms of a core, and d2l-resnet18, 32 and 546 ms.
TEST(Estimate, what_exchanges_takes_the_cores_that_compute) {
  Work small;
  small.samples_per_second = 14'600;
  small.batch = 64;
  small.gradient_bytes = 431'080 * 4;
  Work large;
  large.samples_per_second = 58.6;
  large.batch = 32;
  large.gradient_bytes = 11'181'642 * 4;
  constexpr Network kShaped{1.25e9, 30e-6};
  EXPECT_NEAR(estimate(small, kShaped, 2).samples_per_second, 16'530, 0.15 * 16'530);
  EXPECT_NEAR(estimate(large, kShaped, 2).samples_per_second, 110.9, 0.15 * 110.9);
  small.slots = large.slots = 2;
  EXPECT_NEAR(estimate(small, kShaped, 1).samples_per_second, 19'990, 0.15 * 19'990);
  EXPECT_NEAR(estimate(large, kShaped, 1).samples_per_second, 111.5, 0.15 * 111.5);
  small.cores_in_turns = 0;
  EXPECT_GT(estimate(small, kShaped, 1).samples_per_second, 1.3 * 19'990) << "as ranks of GPUs";
  small.slots = 1;
  EXPECT_DOUBLE_EQ(estimate(small, kShaped, 1).efficiency, 1) << "nothing to exchange";
}

TEST(Estimate, ranks_of_a_worker_add_before_they_send) {
  constexpr Network kSlow{12.5e6, 50e-6};
  Work work = resnet50();
  const double one_a_worker = estimate(work, kSlow, 2).step_seconds;
  work.slots = 4;
  EXPECT_NEAR(estimate(work, kSlow, 2).step_seconds, one_a_worker, 0.05 * one_a_worker);
  work.slots = 6;
  EXPECT_NEAR(estimate(work, kSlow, 2).step_seconds, 1.5 * one_a_worker, 0.1 * one_a_worker);
}

TEST(Estimate, ranks_above_the_cores_compute_by_turns) {
  Work four;
  four.samples_per_second = 58.6;
  four.batch = 32;
  four.gradient_bytes = 11'181'642 * 4;
  four.slots = 4;
  const double apart = estimate(four, kTenGigabit, 1).samples_per_second;
  four.cores_in_turns = 0.5;
  four.ranks_a_core = 2;
  const Estimate shared = estimate(four, kTenGigabit, 1);
  EXPECT_NEAR(shared.samples_per_second, apart / 2, 0.05 * apart);
  EXPECT_LT(shared.efficiency, 0.5);
}

TEST(Estimate, servers_cost_their_cores_too) {
  Work work = resnet50();
  work.exchange = Exchange::kParameterServer;
  work.servers = 4;
  const Estimate with = estimate(work, kTenGigabit, 4);
  EXPECT_DOUBLE_EQ(with.core_hours, with.seconds * 8 / 3600);
  work.server_cores = 0.5;
  EXPECT_DOUBLE_EQ(estimate(work, kTenGigabit, 4).core_hours, with.seconds * 6 / 3600);
  // One worker for all four servers is dearer than two that are nearly as fast each.
  std::vector<Estimate> all;
  for (const int workers : {1, 2}) all.push_back(estimate(work, kTenGigabit, workers));
  EXPECT_EQ(cheapest(all).workers, 2);
}

TEST(Estimate, a_single_server_is_everybody_s_bottleneck) {
  Work work = resnet50();
  work.exchange = Exchange::kParameterServer;
  work.servers = 1;
  const Estimate one = estimate(work, kTenGigabit, 8);
  EXPECT_NEAR(one.step_seconds, 2 * 8 * 102.2e6 / 1.1e9, 0.3) << "all to it, and back";
  work.servers = 8;
  EXPECT_GT(estimate(work, kTenGigabit, 8).samples_per_second, 2 * one.samples_per_second);
}

// What was printed of MXNet 0.9 on c4.large machines, resnet-8 on CIFAR-10, batch 128, servers
// beside the workers: 350 images/s on one, 210 each on two, 160 each on four.
TEST(Estimate, set_by_two_nodes_it_tells_of_mxnet_s_four) {
  Work work;
  work.samples_per_second = 350;
  work.batch = 128;
  work.gradient_bytes = 78'109 * 4;
  work.exchange = Exchange::kParameterServer;
  const Network c4_large{62.5e6, 100e-6};
  const Seen two{2, 2 * 210};
  EXPECT_NEAR(estimate(work, c4_large, 2, two).samples_per_second, 420, 0.1);
  const double four = estimate(work, c4_large, 4, two).samples_per_second;
  EXPECT_NEAR(four, 640, 0.2 * 640);
  EXPECT_GT(std::abs(2 * 420 - 640), 0.2 * 640) << "a linear guess is further off";
  EXPECT_GT(estimate(work, c4_large, 4).samples_per_second, 1.5 * 640) << "as the network alone is";
}

TEST(Estimate, names_the_cheapest_and_the_fastest) {
  std::vector<Estimate> all;
  for (const int workers : {1, 4, 16}) all.push_back(estimate(resnet50(), kTenGigabit, workers));
  EXPECT_EQ(cheapest(all).workers, 1);
  EXPECT_EQ(fastest(all).workers, 16);
}

// Daly's formula against faults that are played one by one.
TEST(Goodput, is_what_played_faults_give) {
  const Faults faults{.between_of_a_node = 8 * 3600, .restart = 30, .save = 5};
  std::mt19937 random(static_cast<std::uint32_t>(test::flags().seed));
  for (const int workers : {1, 16}) {
    for (const double interval : {60.0, 600.0, 3600.0}) {
      std::exponential_distribution<double> next(workers / faults.between_of_a_node);
      double time = 0, done = 0, fault = next(random);
      double end = interval + faults.save;  // of what is under way
      while (done < 20'000 * interval) {
        if (fault >= end) {
          time = end;
          done += interval;
          end = time + interval + faults.save;
          continue;
        }
        time = fault;  // all since the last checkpoint is lost; faults may come in a restart too
        fault = time + next(random);
        for (; fault < time + faults.restart; fault = time + next(random)) time = fault;
        time += faults.restart;
        end = time + interval + faults.save;
      }
      EXPECT_NEAR(goodput(faults, workers, interval), done / time, 0.01)
          << workers << " workers, " << interval << " s";
    }
  }
}

TEST(Goodput, has_a_best_interval) {
  const Faults faults{.between_of_a_node = 30 * 86400, .restart = 30, .save = 2};
  for (const int workers : {1, 100}) {
    const double best = best_checkpoint_seconds(faults, workers);
    // Young's approximation, sqrt(2 x save x MTBF).
    EXPECT_NEAR(best, std::sqrt(2 * faults.save * faults.between_of_a_node / workers), 0.05 * best);
    EXPECT_GT(goodput(faults, workers, best), goodput(faults, workers, best * 2));
    EXPECT_GT(goodput(faults, workers, best), goodput(faults, workers, best / 2));
  }
}

TEST(Parse, reads_networks_times_and_sizes) {
  for (const auto& [text, bytes, latency] :
       {std::tuple("10Gb/s,20us", 1.25e9, 20e-6), std::tuple("2ms,1GB/s", 1e9, 2e-3),
        std::tuple("100Mb/s", 12.5e6, 50e-6)}) {
    const auto network = parse_network(text);
    ASSERT_TRUE(network) << text;
    EXPECT_DOUBLE_EQ(network->bytes_per_second, bytes) << text;
    EXPECT_DOUBLE_EQ(network->seconds_a_message, latency) << text;
  }
  for (const char* text : {"", "10", "10Gb", "10Gb/s,1Gb/s", "-1Gb/s", "0Gb/s", "nanGb/s", "1us,",
                           "infGb/s", "10Gb/s 50us"})
    EXPECT_FALSE(parse_network(text)) << text;
  EXPECT_EQ(parse_seconds("12h"), 43200);
  EXPECT_FALSE(parse_seconds("12"));
  EXPECT_EQ(parse_sizes("1,16"), (std::vector{1, 16}));
  for (const char* text : {"", "0", "1,", "1,x", "4097", "1 2", "1,2,1"})
    EXPECT_FALSE(parse_sizes(text));
}

}  // namespace
}  // namespace coxswain::inspect
