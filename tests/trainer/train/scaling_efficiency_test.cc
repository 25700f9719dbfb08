#include <gtest/gtest.h>

#include <array>
#include <chrono>

#include "tests/trainer/train/training_fixture.h"
#include "trainer/train/speedometer.h"

namespace coxswain::train {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

// Time that passes only where a test says so: each rank's own.
using RankClocks = std::array<steady_clock::time_point, 2>;

// Waiting for a sum takes `patience` on the rank's clock.
class WaitingCommunicator : public comm::Communicator {
 public:
  WaitingCommunicator(std::unique_ptr<Communicator> inner, steady_clock::time_point& clock,
                      seconds patience)
      : inner_(std::move(inner)), clock_(clock), patience_(patience) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool reaches(tensor::Place place) const override { return inner_->reaches(place); }
  bool fixed_order() const override { return inner_->fixed_order(); }
  comm::Ticket all_reduce_sum(const comm::ReductionPlan& plan, comm::Reduction reduction) override {
    return inner_->all_reduce_sum(plan, std::move(reduction));
  }
  void wait(comm::Ticket ticket) override {
    inner_->wait(ticket);
    clock_ += patience_;
  }
  void broadcast(std::span<std::byte> bytes, int root) override { inner_->broadcast(bytes, root); }
  void barrier() override { inner_->barrier(); }
  void finish() override { inner_->finish(); }

 private:
  std::unique_ptr<Communicator> inner_;
  steady_clock::time_point& clock_;
  seconds patience_;
};

// A pass takes 3 s on rank 0 and 1 s on rank 1; sums take 1 s on rank 0 and 3 s on rank 1, which
// is there first. An evaluation batch takes 100 s.
World uneven_ranks(int size, RankClocks& clocks) {
  World world{.size = size, .training = &small_images(), .test = &small_test_images()};
  world.now = [&clocks](int rank) { return clocks[static_cast<std::size_t>(rank)]; };
  world.hooks = [&clocks](int rank, std::atomic<bool>&, test::ThreadNetwork&) {
    steady_clock::time_point& clock = clocks[static_cast<std::size_t>(rank)];
    Hooks hooks;
    hooks.before_pass = [&clock, rank](std::int64_t, const backend::Batch&) {
      clock += seconds(rank == 0 ? 3 : 1);
    };
    hooks.before_evaluation = [&clock](const backend::Batch&) { clock += seconds(100); };
    return hooks;
  };
  world.wrap_communicator = [&clocks](int rank, std::unique_ptr<comm::Communicator> inner) {
    return std::make_unique<WaitingCommunicator>(
        std::move(inner), clocks[static_cast<std::size_t>(rank)], seconds(rank == 0 ? 1 : 3));
  };
  return world;
}

TEST(ScalingEfficiency, is_the_share_of_steps_in_which_the_ranks_wait_for_nobody) {
  RankClocks clocks{};
  const Outcome outcome = run(mlp_options(), uneven_ranks(2, clocks));
  // 3 epochs of 8 steps of 4 s, in which a rank waits for 2 s in the mean; what ranks waited in the
  // last of them is never told.
  ASSERT_EQ(outcome.told.epochs.size(), 3U);
  EXPECT_EQ(outcome.told.epochs[0].scaling_efficiency, 1 - 7 * 2.0 / 32);
  EXPECT_EQ(outcome.told.epochs[1].scaling_efficiency, 0.5);
  EXPECT_EQ(outcome.told.epochs[2].scaling_efficiency, 0.5);
  EXPECT_EQ(outcome.told.epochs[2].seconds, 32);
  EXPECT_EQ(outcome.told.finished.at(0).scaling_efficiency, 1 - 23 * 2.0 / 96);

  EXPECT_EQ(outcome.told.steps[0].scaling_efficiency, std::nullopt);
  EXPECT_EQ(outcome.told.steps[1].scaling_efficiency, 1 - 2.0 / 8);
  EXPECT_EQ(outcome.told.steps[3].scaling_efficiency, 1 - 3 * 2.0 / 16);
  EXPECT_EQ(outcome.told.steps[9].scaling_efficiency, 0.5);
}

// 8 steps of 4 s, of 16 images each: 4 images/s.
TEST(OneRankEfficiency, is_the_pace_by_that_of_ranks_alone) {
  RankClocks clocks{};
  TrainOptions options = mlp_options();
  options.one_rank_rate = 10;
  const Outcome outcome = run(options, uneven_ranks(2, clocks));
  const double pace = outcome.told.epochs.at(0).samples_per_second;
  ASSERT_GT(pace, 0);
  EXPECT_EQ(outcome.told.epochs[0].one_rank_efficiency, pace / 20);
  EXPECT_EQ(outcome.told.finished.at(0).one_rank_efficiency,
            outcome.told.finished[0].samples_per_second / 20);
  // Evaluations count in all, and in no epoch.
  EXPECT_GT(outcome.told.finished[0].seconds, 100 + 96);
  EXPECT_EQ(outcome.told.started.at(0).one_rank_rate, 10);
}

TEST(OneRankEfficiency, is_measured_with_what_leaves_no_trace_in_the_weights) {
  RankClocks clocks{}, others{};
  const Outcome plain = run(mlp_options(), uneven_ranks(2, clocks));
  TrainOptions options = mlp_options();
  options.one_rank_rate = 0;
  const Outcome outcome = run(options, uneven_ranks(2, others));
  EXPECT_EQ(outcome.weights, plain.weights);
  // A pass takes rank 0 3 s, its share of a step is half of it.
  const double share = static_cast<double>(outcome.told.started.at(0).global_batch) / 2;
  EXPECT_DOUBLE_EQ(outcome.told.started[0].one_rank_rate.value(), share / 3);
  EXPECT_EQ(plain.told.started.at(0).one_rank_rate, std::nullopt);
  EXPECT_EQ(plain.told.epochs.at(0).one_rank_efficiency, std::nullopt);
}

TEST(Top5, of_training_is_told_where_it_is_asked_for) {
  RankClocks clocks{}, others{};
  EXPECT_EQ(run(mlp_options(), uneven_ranks(2, clocks)).told.epochs.at(0).training_top5,
            std::nullopt);
  TrainOptions options = mlp_options();
  options.tells_top5 = true;
  const Outcome outcome = run(options, uneven_ranks(2, others));
  for (const EpochReport& epoch : outcome.told.epochs) {
    ASSERT_TRUE(epoch.training_top5.has_value());
    EXPECT_GE(*epoch.training_top5, epoch.training_accuracy);
    EXPECT_LE(*epoch.training_top5, 1);
  }
  EXPECT_EQ(outcome.told.finished.at(0).top5, outcome.told.epochs.back().top5);
}

TEST(ScalingEfficiency, counts_a_wait_once_when_a_step_has_several_batches) {
  struct Case {
    int accumulate;
    int virtual_shards;
    int passes;  // a step on each rank
  };
  for (const Case& c : {Case{2, 0, 2}, Case{1, 4, 2}, Case{2, 4, 4}}) {
    SCOPED_TRACE(::testing::Message() << c.accumulate << " times, shards: " << c.virtual_shards);
    TrainOptions options = mlp_options();
    options.last_batch = LastBatch::kDiscard;
    options.accumulate = c.accumulate;
    options.virtual_shards = c.virtual_shards;
    RankClocks clocks{};
    const Outcome outcome = run(options, uneven_ranks(2, clocks));
    ASSERT_EQ(outcome.told.epochs.size(), 3U);
    EXPECT_DOUBLE_EQ(*outcome.told.epochs[1].scaling_efficiency, 1 - 2.0 / (3 * c.passes + 1));
  }
}

TEST(ScalingEfficiency, of_one_rank_is_1) {
  RankClocks clocks{};
  const Outcome outcome = run(mlp_options(), uneven_ranks(1, clocks));
  EXPECT_EQ(outcome.told.epochs.at(0).scaling_efficiency, 1);
  EXPECT_EQ(outcome.told.finished.at(0).scaling_efficiency, 1);
}

TEST(Speedometer, counts_the_time_of_steps_alone) {
  steady_clock::time_point time;
  Speedometer speed([&time] { return time; });
  EXPECT_EQ(speed.overall().samples_per_second(), 0);
  EXPECT_EQ(speed.overall().scaling_efficiency(), std::nullopt);

  speed.start_epoch();
  for (int step = 0; step < 4; ++step) {
    time += seconds(2);
    speed.add(10, step == 0 ? 0 : 0.5);
  }
  EXPECT_EQ(speed.epoch().samples_per_second(), 5);
  EXPECT_EQ(speed.epoch().scaling_efficiency(), 1 - 1.5 / 8);
  speed.mark();
  speed.finish_epoch();
  time += seconds(100);
  EXPECT_EQ(speed.epoch().seconds, 8);

  speed.start_epoch();
  time += seconds(4);
  speed.add(10, 0.5);
  EXPECT_EQ(speed.epoch().steps, 1);
  EXPECT_EQ(speed.epoch().scaling_efficiency(), std::nullopt);
  EXPECT_EQ(speed.recent().samples_per_second(), 2.5);
  speed.finish_epoch();
  time += seconds(100);
  EXPECT_EQ(speed.overall().seconds, 12);
  EXPECT_EQ(speed.overall().samples, 50);
  EXPECT_EQ(speed.overall().scaling_efficiency(), 1 - 2.0 / 12);
}

}  // namespace
}  // namespace coxswain::train
