#include <gtest/gtest.h>

#include "tests/trainer/comm/rank_checks.h"
#include "trainer/comm/communicator.h"

namespace coxswain::comm {
namespace {

TEST(SoloCommunicator, adds_its_parts_as_the_plan_says) {
  const auto communicator = make_solo_communicator();
  const ReductionPlan plan = {.parts_of_rank = {3}, .adds = {{1, 2}, {0, 1}}};
  EXPECT_EQ(wrong_sums(*communicator, plan, 1), 0);
  EXPECT_EQ(wrong_sums(*communicator, in_rank_order(1), 1), 0);
}

// Nothing is done to it, so it may lie where the host does not reach.
TEST(SoloCommunicator, takes_one_part_for_the_sum_wherever_it_lies) {
  const auto communicator = make_solo_communicator();
  float nowhere = 0;
  const tensor::Slice part(tensor::Place::kDevice, &nowhere, 1);
  EXPECT_TRUE(communicator->reaches(tensor::Place::kDevice));
  communicator->wait(communicator->all_reduce_sum(in_rank_order(1), {{part}, 0}));
  const ReductionPlan two_parts = {.parts_of_rank = {2}, .adds = {{0, 1}}};
  EXPECT_THROW(communicator->all_reduce_sum(two_parts, {{part, part}, 0}), Error);
}

TEST(SoloCommunicator, needs_nobody) {
  const auto communicator = make_solo_communicator();
  EXPECT_EQ(communicator->rank(), 0);
  EXPECT_EQ(communicator->size(), 1);
  EXPECT_EQ(wrong_broadcasts(*communicator), 0);
  communicator->barrier();
  communicator->finish();
}

TEST(SoloCommunicator, refuses_what_does_not_fit_the_plan) {
  const auto communicator = make_solo_communicator();
  std::vector<float> values(4);
  const std::span<float> part(values);
  EXPECT_THROW(communicator->all_reduce_sum(in_rank_order(2), {{part}, 0}), Error);
  EXPECT_THROW(communicator->all_reduce_sum(in_rank_order(1), {{part, part}, 0}), Error);
  EXPECT_THROW(communicator->all_reduce_sum(in_rank_order(1), {{part}, -1}), Error);
  EXPECT_THROW(communicator->all_reduce_sum({{1}, {{0, 1}}}, {{part}, 0}), Error);
  const ReductionPlan two_parts = {.parts_of_rank = {2}, .adds = {{0, 1}}};
  EXPECT_THROW(communicator->all_reduce_sum(two_parts, {{part, part.first(3)}, 0}), Error);
}

}  // namespace
}  // namespace coxswain::comm
