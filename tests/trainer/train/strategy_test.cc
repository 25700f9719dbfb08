#include "trainer/train/strategy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// All-reduce whose outcomes are known two steps later, as a device's are.
class LateStrategy : public Strategy {
 public:
  static constexpr int kLag = 2;
  explicit LateStrategy(const StrategyInputs& inputs) : inner_(make_all_reduce_strategy(inputs)) {}

  void initialise(const graph::Program& training) override { inner_->initialise(training); }
  void restore(const checkpoint::Contents* contents) override { inner_->restore(contents); }
  std::function<checkpoint::Contents()> snapshot() override { return inner_->snapshot(); }
  void start(const Course& course, std::int64_t step) override { inner_->start(course, step); }
  void begin(const StepPlan& plan) override { inner_->begin(plan); }
  void begin_micro_batch(bool stop) override { inner_->begin_micro_batch(stop); }
  void gradients_ready(int complete) override { inner_->gradients_ready(complete); }
  void finish_micro_batch() override { inner_->finish_micro_batch(); }
  void finish_step() override { inner_->finish_step(); }
  int lag() const override { return kLag; }
  StepOutcome outcome() override { return inner_->outcome(); }

 private:
  std::unique_ptr<Strategy> inner_;
};

World late(World world) {
  world.strategy = [](const StrategyInputs& inputs) -> std::unique_ptr<Strategy> {
    return std::make_unique<LateStrategy>(inputs);
  };
  return world;
}

World world_of_two() {
  return {.size = 2, .training = &small_images(), .test = &small_test_images()};
}

TEST(Lag, changes_neither_bits_nor_what_is_told) {
  TrainOptions options = mlp_options();
  for (const std::optional<std::int64_t> steps : {std::optional<std::int64_t>{}, {13}}) {
    options.steps = steps;
    const Outcome prompt = run(options, world_of_two());
    const Outcome lagging = run(options, late(world_of_two()));
    EXPECT_EQ(difference(lagging.weights, prompt.weights), "");
    EXPECT_EQ(difference(lagging.slots, prompt.slots), "");
    ASSERT_EQ(lagging.told.steps.size(), prompt.told.steps.size());
    for (std::size_t i = 0; i < prompt.told.steps.size(); ++i) {
      EXPECT_EQ(lagging.told.steps[i].step, prompt.told.steps[i].step);
      EXPECT_EQ(lagging.told.steps[i].loss, prompt.told.steps[i].loss);
      EXPECT_EQ(lagging.told.steps[i].accuracy, prompt.told.steps[i].accuracy);
      EXPECT_EQ(lagging.told.steps[i].lr, prompt.told.steps[i].lr);
    }
    ASSERT_EQ(lagging.told.epochs.size(), prompt.told.epochs.size());
    for (std::size_t i = 0; i < prompt.told.epochs.size(); ++i) {
      EXPECT_EQ(lagging.told.epochs[i].training_loss, prompt.told.epochs[i].training_loss);
      EXPECT_EQ(lagging.told.epochs[i].loss, prompt.told.epochs[i].loss);
    }
  }
}

// Asked in step 3 and told in its outcome, ranks stop after step 5; at the end of an epoch (after
// step 8) all outcomes are known, and nothing is begun that nobody wants.
TEST(Lag, stops_all_ranks_that_many_steps_later_or_at_the_end_of_the_epoch) {
  const Outcome undisturbed = run(mlp_options(), world_of_two());
  for (const auto& [asked_after, last] :
       {std::pair(2, 5), std::pair(5, 8), std::pair(6, 8), std::pair(7, 8), std::pair(8, 11)}) {
    SCOPED_TRACE(fmt::format("asked after {} updates", asked_after));
    const CheckpointDirectory directory;
    TrainOptions options = mlp_options();
    options.checkpoint.directory = directory.path();
    World stopped = late(world_of_two());
    stopped.hooks = stop_after(1, asked_after);
    for (const Outcome& outcome : run_ranks(options, stopped)) {
      EXPECT_EQ(outcome.result, Result::kSaved);
      EXPECT_EQ(outcome.updates, last);
    }
    EXPECT_EQ(newest(directory.path()).state.step, last);
    const Outcome resumed = run(options, late(world_of_two()));
    EXPECT_EQ(difference(resumed.weights, undisturbed.weights), "");
    EXPECT_EQ(resumed.told.finished.at(0).loss, undisturbed.told.finished.at(0).loss);
  }
}

World with_nan_in(World world, std::set<std::int64_t> passes) {
  world.hooks = [passes](int rank, std::atomic<bool>&, test::ThreadNetwork&) {
    Hooks hooks;
    if (rank != 1) return hooks;
    hooks.after_gradient = [passes](std::int64_t pass, backend::Parameters& parameters, int) {
      if (!passes.contains(pass)) return;
      tensor::host_span(parameters.gradients())[0] = std::numeric_limits<float>::quiet_NaN();
    };
    return hooks;
  };
  return world;
}

TEST(Lag, skips_the_same_steps_and_counts_the_same_updates) {
  TrainOptions options = mlp_options();
  options.rule.kind = OptimizerKind::kAdam;  // its updates depend on their count
  const Outcome prompt = run(options, with_nan_in(world_of_two(), {3, 4, 8, 20}));
  const CheckpointDirectory directory;
  options.checkpoint.directory = directory.path();
  const Outcome lagging = run(options, with_nan_in(late(world_of_two()), {3, 4, 8, 20}));
  EXPECT_EQ(lagging.updates, 20);
  EXPECT_EQ(newest(directory.path()).state.update_count, 20);
  EXPECT_EQ(difference(lagging.weights, prompt.weights), "");
  EXPECT_EQ(lagging.told.warnings, prompt.told.warnings);
  options.checkpoint.directory.clear();
  options.max_skipped = 1;
  for (const Outcome& outcome : run_ranks(options, with_nan_in(late(world_of_two()), {3, 4}))) {
    EXPECT_EQ(outcome.code, ExitCode::kNotFinite);
    EXPECT_THAT(outcome.error, HasSubstr("in 2 steps in a row up to step 4"));
  }
}

// The tensors of a save and its place belong to one step, though the place is known later.
TEST(Lag, saves_what_a_run_without_it_saves_and_goes_on_from_there) {
  const Outcome undisturbed = run(mlp_options(), world_of_two());
  for (const std::int64_t step : {5, 8, 13}) {
    checkpoint::Contents saved[2];
    for (const bool lags : {false, true}) {
      const CheckpointDirectory directory;
      TrainOptions options = mlp_options();
      options.checkpoint.directory = directory.path();
      options.checkpoint.every_steps = step;
      options.checkpoint.keep = 100;
      options.steps = step + 3;
      const World world = lags ? late(world_of_two()) : world_of_two();
      run(options, world);
      saved[lags ? 1 : 0] = checkpoint::load(directory.path() / fmt::format("step-{:08}.g1", step));
      if (!lags) continue;
      std::filesystem::remove_all(directory.path() / fmt::format("step-{:08}.g1", step + 3));
      options.steps.reset();
      options.checkpoint.every_steps = 0;
      EXPECT_EQ(difference(run(options, world).weights, undisturbed.weights), "") << step;
    }
    expect_equal(saved[0], saved[1]);
  }
}

// A communicator that can do less.
class Lesser : public comm::Communicator {
 public:
  Lesser(std::unique_ptr<comm::Communicator> inner, bool reaches_host, bool fixed_order)
      : inner_(std::move(inner)), reaches_host_(reaches_host), fixed_order_(fixed_order) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool reaches(tensor::Place) const override { return reaches_host_; }
  bool fixed_order() const override { return fixed_order_; }
  comm::Ticket all_reduce_sum(const comm::ReductionPlan& plan, comm::Reduction r) override {
    return inner_->all_reduce_sum(plan, std::move(r));
  }
  void wait(comm::Ticket ticket) override { inner_->wait(ticket); }
  void broadcast(std::span<std::byte> bytes, int root) override { inner_->broadcast(bytes, root); }
  void barrier() override { inner_->barrier(); }
  void finish() override { inner_->finish(); }

 private:
  std::unique_ptr<comm::Communicator> inner_;
  bool reaches_host_;
  bool fixed_order_;
};

World over_lesser(bool reaches_host, bool fixed_order) {
  World world = world_of_two();
  world.wrap_communicator = [=](int, std::unique_ptr<comm::Communicator> inner) {
    return std::make_unique<Lesser>(std::move(inner), reaches_host, fixed_order);
  };
  return world;
}

TEST(AllReduce, refuses_a_communicator_that_does_not_reach_the_parameters) {
  for (const Outcome& outcome : run_ranks(mlp_options(), over_lesser(false, true))) {
    EXPECT_EQ(outcome.code, ExitCode::kBadInput);
    EXPECT_THAT(outcome.error, HasSubstr("does not reach what lies on a GPU"));
  }
}

TEST(Reproducible, none_alone_takes_sums_in_any_order_and_says_so) {
  TrainOptions options = mlp_options();
  for (const Outcome& outcome : run_ranks(options, over_lesser(true, false))) {
    EXPECT_EQ(outcome.code, ExitCode::kBadInput);
    EXPECT_THAT(outcome.error, HasSubstr("write reproducible: none"));
  }
  options.fixed_order = false;
  const CheckpointDirectory directory;
  options.checkpoint.directory = directory.path();
  options.steps = 4;
  const Outcome first = run(options, over_lesser(true, false));
  EXPECT_THAT(first.told.started[0].fingerprint, ::testing::EndsWith(" sums=any"));
  options.steps = 6;
  const Outcome second = run(options, over_lesser(true, false));
  EXPECT_THAT(second.told.notes(), HasSubstr("resumed after step 4: continues not bit for bit"));
}

}  // namespace
}  // namespace coxswain::train
