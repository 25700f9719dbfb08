#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"

namespace coxswain::train {
namespace {

using ::testing::HasSubstr;

constexpr auto kDeadline = std::chrono::milliseconds(500);

TrainOptions saving_options(const CheckpointDirectory& directory) {
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
      hooks.after_gradient = [&network, lost](std::int64_t pass, backend::Parameters&, int) {
        if (pass == 4) network.stop(lost);
      };
      return hooks;
    };
    for (const Outcome& outcome : run_ranks(saving_options(directory), world)) {
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
    hooks.after_gradient = [](std::int64_t pass, backend::Parameters&, int completed) {
      if (pass == 2 && completed == 4) throw Error(ExitCode::kBadInput, "[data] broken");
    };
    return hooks;
  };
  const auto outcomes = run_ranks(saving_options(directory), world);
  EXPECT_EQ(outcomes[1].error, "[data] broken");
  for (const int rank : {0, 2}) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(outcome.peer_lost) << outcome.error;
    EXPECT_THAT(outcome.error, HasSubstr("rank 1"));
    EXPECT_EQ(outcome.updates, 1);
  }
  EXPECT_EQ(saved_in(directory.path()), std::set<std::string>());
}

// A rank that dies when the others say goodbye.
class DiesInTheEnd : public comm::Communicator {
 public:
  explicit DiesInTheEnd(std::unique_ptr<comm::Communicator> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool reaches(tensor::Place place) const override { return inner_->reaches(place); }
  bool fixed_order() const override { return inner_->fixed_order(); }
  comm::Ticket all_reduce_sum(const comm::ReductionPlan& plan, comm::Reduction r) override {
    return inner_->all_reduce_sum(plan, std::move(r));
  }
  void wait(comm::Ticket ticket) override { inner_->wait(ticket); }
  void broadcast(std::span<std::byte> bytes, int root) override { inner_->broadcast(bytes, root); }
  void barrier() override { inner_->barrier(); }
  void finish() override { throw Error(ExitCode::kInternal, "[test] died"); }

 private:
  std::unique_ptr<comm::Communicator> inner_;
};

TEST(PeerLoss, in_the_last_barrier_finds_the_final_state_saved) {
  const CheckpointDirectory directory;
  World world = {.size = 2, .training = &small_images(), .peer_deadline = kDeadline};
  world.wrap_communicator = [](int rank, std::unique_ptr<comm::Communicator> communicator) {
    if (rank == 0) return communicator;
    return std::unique_ptr<comm::Communicator>(new DiesInTheEnd(std::move(communicator)));
  };
  const auto outcomes = run_ranks(saving_options(directory), world);
  EXPECT_TRUE(outcomes[0].peer_lost) << outcomes[0].error;
  EXPECT_TRUE(outcomes[0].told.finished.empty());  // that is for the next start to say
  EXPECT_TRUE(newest(directory.path()).state.finished);
  const Outcome next = run(saving_options(directory), {.size = 2, .training = &small_images()});
  EXPECT_EQ(next.result, Result::kSucceeded);
  EXPECT_EQ(next.updates, 0);
}

}  // namespace
}  // namespace coxswain::train
