#include "trainer/train/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/contract/error.h"

namespace coxswain::train {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

checkpoint::State saved() {
  checkpoint::State state;
  state.step = 400;
  state.epoch = 1;
  state.samples_in_epoch = 1280;
  state.world_size = 2;
  state.global_batch = 128;
  state.fingerprint = "a";
  state.identity = {{"model", "singa-cnn"}};
  state.trajectory = {{"optimizer.lr", "0.05"}};
  return state;
}

TrainOptions options() {
  TrainOptions result;
  result.identity = saved().identity;
  result.trajectory = saved().trajectory;
  return result;
}

TEST(Resume, continues_bit_for_bit_when_nothing_changed) {
  const ResumePlan plan = plan_resume(saved(), options(), {2, 128, "a"});
  EXPECT_THAT(plan.notes, Contains(HasSubstr("after step 400: continues bit for bit")));
  EXPECT_EQ(plan.state.samples_in_epoch, 1280);
}

TEST(Resume, says_when_the_numbers_will_differ) {
  EXPECT_THAT(plan_resume(saved(), options(), {2, 128, "b"}).notes,
              Contains(HasSubstr("not bit for bit")));
  EXPECT_THAT(plan_resume(saved(), options(), {4, 256, "a"}).notes,
              Contains(HasSubstr("not bit for bit")));
  TrainOptions any_world_size = options();
  any_world_size.virtual_shards = 8;
  EXPECT_THAT(plan_resume(saved(), any_world_size, {4, 128, "a"}).notes,
              Contains(HasSubstr("continues bit for bit")));
}

TEST(Resume, refuses_another_model_naming_both) {
  TrainOptions other = options();
  other.identity["model"] = "mlp";
  try {
    plan_resume(saved(), other, {2, 128, "a"});
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr("model was singa-cnn when it was saved and is mlp now"));
  }
}

TEST(Resume, warns_of_another_learning_rate_and_goes_on) {
  TrainOptions other = options();
  other.trajectory["optimizer.lr"] = "0.1";
  const ResumePlan plan = plan_resume(saved(), other, {2, 128, "a"});
  EXPECT_THAT(plan.notes, Contains(HasSubstr("optimizer.lr was 0.05 and is 0.1 now")));
}

TEST(Resume, keeps_the_global_batch_of_the_first_start_on_another_world_size) {
  EXPECT_EQ(plan_resume(saved(), options(), {4, 256, "a"}).state.global_batch, 128);
  TrainOptions per_worker = options();
  per_worker.keep_global_batch = false;
  EXPECT_EQ(plan_resume(saved(), per_worker, {4, 256, "a"}).state.global_batch, 256);
}

TEST(Resume, moves_to_the_next_epoch_when_the_split_depends_on_the_ranks) {
  TrainOptions contiguous = options();
  contiguous.split = data::Split::kContiguous;
  const ResumePlan plan = plan_resume(saved(), contiguous, {4, 256, "a"});
  EXPECT_EQ(plan.state.epoch, 2);
  EXPECT_EQ(plan.state.samples_in_epoch, 0);
}

}  // namespace
}  // namespace coxswain::train
