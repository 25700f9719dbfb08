#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"

namespace coxswain::train {
namespace {

using ::testing::HasSubstr;

constexpr auto kDeadline = std::chrono::milliseconds(500);

TrainOptions saving_to(const CheckpointDirectory& directory) {
  TrainOptions options = mlp_options();
  options.checkpoint.directory = directory.path();
  options.bucket_bytes = 1;  // some sums are under way when the peer goes
  return options;
}

TEST(PeerLoss, in_mid_step_ends_training_everywhere_and_publishes_nothing) {
  for (const int lost : {0, 2}) {
    const CheckpointDirectory directory;
    World world = {.size = 3, .training = &small_images(), .peer_deadline = kDeadline};
    world.hooks = [lost](int rank, std::atomic<bool>&, test::ThreadNetwork& network) {
      Hooks hooks;
      if (rank != lost) return hooks;
      hooks.after_gradient = [&network, lost](std::int64_t pass, tensor::ParameterBuffer&, int) {
        if (pass == 4) network.stop(lost);
      };
      return hooks;
    };
    for (const Outcome& outcome : run_ranks(saving_to(directory), world)) {
      EXPECT_TRUE(outcome.peer_lost) << outcome.error;
      EXPECT_EQ(outcome.code, ExitCode::kPeerLost);
      EXPECT_EQ(outcome.updates, 3);
    }
    EXPECT_EQ(saved_in(directory.path()), std::set<std::string>());
  }
}

TEST(PeerLoss, is_what_the_others_see_when_a_rank_fails_in_mid_step) {
  const CheckpointDirectory directory;
  World world = {.size = 3, .training = &small_images(), .peer_deadline = kDeadline};
  world.hooks = [](int rank, std::atomic<bool>&, test::ThreadNetwork&) {
    Hooks hooks;
    if (rank != 1) return hooks;
    hooks.after_gradient = [](std::int64_t pass, tensor::ParameterBuffer&, int completed) {
      if (pass == 2 && completed == 4) throw Error(ExitCode::kBadInput, "[data] broken");
    };
    return hooks;
  };
  const auto outcomes = run_ranks(saving_to(directory), world);
  EXPECT_EQ(outcomes[1].error, "[data] broken");
  for (const int rank : {0, 2}) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(outcome.peer_lost) << outcome.error;
    EXPECT_THAT(outcome.error, HasSubstr("rank 1"));
    EXPECT_EQ(outcome.updates, 1);
  }
  EXPECT_EQ(saved_in(directory.path()), std::set<std::string>());
}

}  // namespace
}  // namespace coxswain::train
