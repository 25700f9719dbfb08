#include "trainer/train/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/contract/config/config_reader.h"
#include "trainer/contract/error.h"

namespace coxswain::train {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
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

std::string refusal_of(const checkpoint::State& state, const TrainOptions& options,
                       const ThisStart& now) {
  try {
    plan_resume(state, options, now);
    return "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
}

TEST(Resume, continues_bit_for_bit_when_nothing_changed) {
  const ResumePlan plan = plan_resume(saved(), options(), {2, 128, "a"});
  EXPECT_THAT(plan.notes, Contains(HasSubstr("after step 400: continues bit for bit")));
  EXPECT_EQ(plan.state.samples_in_epoch, 1280);
}

TEST(Resume, says_that_pretrained_weights_are_for_the_beginning) {
  TrainOptions now = options();
  now.pretrained = "weights.safetensors";
  EXPECT_THAT(
      plan_resume(saved(), now, {2, 128, "a"}).notes,
      Contains("goes on with the checkpoint's weights, not with those of weights.safetensors"));
}

TEST(Resume, leaves_out_a_codec_that_did_not_pay_as_long_as_it_is_asked_for) {
  const std::string note =
      "communication.compression did not pay: gradients are still sent exactly";
  checkpoint::State state = saved();
  state.pushes_exactly = true;
  state.trajectory["communication.compression"] = "topk";
  TrainOptions now = options();
  now.trajectory["communication.compression"] = "topk";
  now.codec.kind = Compression::kTopK;
  now.fixed_order = false;
  EXPECT_TRUE(plan_resume(state, now, {2, 128, "a"}).state.pushes_exactly);
  EXPECT_THAT(plan_resume(state, now, {2, 128, "a"}).notes, Contains(note));
  now.fixed_order = true;
  EXPECT_FALSE(plan_resume(state, now, {2, 128, "a"}).state.pushes_exactly);
  now.fixed_order = false;
  now.trajectory["communication.compression"] = "fp16";
  EXPECT_FALSE(plan_resume(state, now, {2, 128, "a"}).state.pushes_exactly);
  EXPECT_THAT(plan_resume(state, now, {2, 128, "a"}).notes, testing::Not(Contains(note)));
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
  EXPECT_THAT(refusal_of(saved(), other, {2, 128, "a"}),
              HasSubstr("model was singa-cnn when it was saved and is mlp now"));
}

TEST(Resume, warns_of_another_dataset_and_refuses_other_classes) {
  checkpoint::State state = saved();
  state.dataset = {{"samples", "60"}, {"classes", "4"}, {"labels", "0f"}};
  ThisStart now{2, 128, "a", state.dataset};
  EXPECT_THAT(plan_resume(state, options(), now).notes,
              ElementsAre("resumed after step 400: continues bit for bit"));
  now.dataset["labels"] = "1f";
  const ResumePlan plan = plan_resume(state, options(), now);
  EXPECT_THAT(plan.notes,
              ElementsAre("the training set is another one: labels was 0f and is 1f now",
                          "resumed after step 400: continues not bit for bit"));
  EXPECT_EQ(plan.state.dataset, now.dataset);
  state.dataset = now.dataset;
  now.dataset["content"] = "7f";  // which an older program did not know
  EXPECT_THAT(plan_resume(state, options(), now).notes,
              ElementsAre("resumed after step 400: continues bit for bit"));
  now.dataset["classes"] = "5";
  EXPECT_THAT(refusal_of(state, options(), now),
              HasSubstr("had 4 classes when it was saved and has 5 now"));
  state.dataset.clear();  // of an older program
  EXPECT_THAT(plan_resume(state, options(), now).notes,
              ElementsAre("resumed after step 400: continues bit for bit"));
}

TEST(Resume, is_refused_where_a_class_has_another_name) {
  checkpoint::State state = saved();
  ThisStart now{2, 128, "a"};
  state.class_names = {"cat", "dog"};
  EXPECT_EQ(plan_resume(state, options(), now).state.class_names, std::vector<std::string>());
  now.class_names = {"cat", "dog"};
  EXPECT_EQ(plan_resume(state, options(), now).state.class_names, now.class_names);
  now.class_names = {"dog", "zcat"};
  EXPECT_THAT(refusal_of(state, options(), now),
              HasSubstr("class 0 was cat when it was saved and is dog now"));
  now.class_names = {"cat"};
  EXPECT_THAT(refusal_of(state, options(), now), HasSubstr("class 1 was dog when it was saved and "
                                                           "is none now"));
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

// 2 ranks of 64, then 4, then a restart of the 4, then 8.
TEST(Resume, keeps_the_global_batch_through_any_number_of_restarts) {
  checkpoint::State state = plan_resume(saved(), options(), {4, 256, "a"}).state;
  for (const int world_size : {4, 4, 8, 2, 4}) {
    const ResumePlan plan = plan_resume(state, options(), {world_size, 64 * world_size, "a"});
    EXPECT_EQ(plan.state.global_batch, 128);
    if (world_size == state.world_size) {
      EXPECT_THAT(plan.notes, Contains(HasSubstr("keeps the global batch of the first start, 128: "
                                                 "it would be 256 on 4 ranks")));
      EXPECT_THAT(plan.notes, Contains(HasSubstr("continues bit for bit")));
    }
    state = plan.state;
  }
}

TEST(Resume, takes_another_batch_once_it_is_asked_for) {
  contract::TrainerConfig config;
  TrainOptions before = options();
  before.trajectory = contract::trajectory(config);
  checkpoint::State state = saved();
  state.trajectory = before.trajectory;
  const auto resumed_with = [&](const contract::TrainerConfig& changed) {
    TrainOptions now = options();
    now.trajectory = contract::trajectory(changed);
    return plan_resume(state, now, {4, 512, "a"});
  };
  contract::TrainerConfig rate = config;
  rate.optimizer.lr = 0.5;
  EXPECT_EQ(resumed_with(rate).state.global_batch, 128);
  for (auto member : {&contract::TrainerConfig::batch_size, &contract::TrainerConfig::accumulate}) {
    contract::TrainerConfig changed = config;
    changed.*member *= 2;
    const ResumePlan plan = resumed_with(changed);
    EXPECT_EQ(plan.state.global_batch, 512);
    EXPECT_THAT(plan.notes, Contains(HasSubstr("not bit for bit")));
  }
  config.batch_semantics = BatchSemantics::kGlobal;
  EXPECT_EQ(resumed_with(config).state.global_batch, 512);
}

TEST(Resume, moves_to_the_next_epoch_when_the_split_depends_on_the_ranks) {
  TrainOptions contiguous = options();
  contiguous.split = Split::kContiguous;
  const ResumePlan plan = plan_resume(saved(), contiguous, {4, 256, "a"});
  EXPECT_EQ(plan.state.epoch, 2);
  EXPECT_EQ(plan.state.samples_in_epoch, 0);
}

}  // namespace
}  // namespace coxswain::train
