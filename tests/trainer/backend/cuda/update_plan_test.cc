#include "trainer/backend/cuda/update_plan.h"

#include <gtest/gtest.h>

namespace coxswain::backend::cuda {
namespace {

using tensor::SegmentKind;

tensor::ParameterLayout layout_of(std::int64_t floats) {
  const auto make = [](const char* name, SegmentKind kind, std::vector<std::int64_t> dims) {
    tensor::Segment segment{.name = name, .kind = kind, .dims = std::move(dims)};
    segment.stored = segment.elements();
    return segment;
  };
  return tensor::pack({make("n.running_mean", SegmentKind::kStatistic, {3}),
                       make("frozen.weight", SegmentKind::kFrozen, {2, 3}),
                       make("d.weight", SegmentKind::kWeight, {1, floats}),
                       make("d.bias", SegmentKind::kBias, {20})});
}

TEST(CudaUpdatePlan, says_of_each_granule_what_is_done) {
  const UpdatePlan plan = plan_update(layout_of(17), OptimizerKind::kLamb, DecayScope::kWeights);
  using enum Change;
  EXPECT_EQ(plan.changes, (std::vector<Change>{kStatistic, kNothing, kDecayed, kDecayed, kUndecayed,
                                               kUndecayed, kNothing}));
  EXPECT_EQ(plan.tensor_of, (std::vector<std::int32_t>{-1, -1, 0, 0, 1, 1, -1}));
  ASSERT_EQ(plan.tensors.size(), 2U);
  EXPECT_TRUE(plan.tensors[0].is_weight);
  EXPECT_FALSE(plan.tensors[1].is_weight);
}

TEST(CudaUpdatePlan, takes_matrices_apart_for_muon) {
  const UpdatePlan plan = plan_update(layout_of(17), OptimizerKind::kMuon, DecayScope::kAll);
  using enum Change;
  EXPECT_EQ(plan.changes, (std::vector<Change>{kStatistic, kNothing, kMatrix, kMatrix, kDecayed,
                                               kDecayed, kNothing}));
  EXPECT_EQ(plan.tensor_of, (std::vector<std::int32_t>{-1, -1, 0, 0, -1, -1, -1}));
  ASSERT_EQ(plan.tensors.size(), 1U);
  EXPECT_EQ(plan.tensors[0].longer_side, 17);
}

TEST(CudaUpdatePlan, knows_no_tensors_where_rules_are_elementwise) {
  const UpdatePlan plan = plan_update(layout_of(17), OptimizerKind::kAdam, DecayScope::kAll);
  EXPECT_TRUE(plan.tensor_of.empty());
  EXPECT_TRUE(plan.tensors.empty());
  EXPECT_TRUE(plan.pieces.empty());
}

TEST(CudaUpdatePlan, cuts_tensors_into_pieces_that_follow_each_other) {
  for (const std::int64_t floats : {1, 2048, 2049, 512 * 2048, 512 * 2048 + 1, 50'000'000}) {
    const tensor::ParameterLayout layout = layout_of(floats);
    const UpdatePlan plan = plan_update(layout, OptimizerKind::kLars, DecayScope::kAll);
    const tensor::Segment& weight = layout.segments[2];
    const RatedTensor& whole = plan.tensors[0];
    EXPECT_LE(whole.last_piece - whole.first_piece, 512);
    std::int64_t next = weight.offset;
    for (std::int32_t i = whole.first_piece; i < whole.last_piece; ++i) {
      const Piece& piece = plan.pieces[static_cast<std::size_t>(i)];
      EXPECT_EQ(piece.first, next);
      EXPECT_GT(piece.last, piece.first);
      next = piece.last;
    }
    EXPECT_EQ(next, weight.end()) << floats;
    EXPECT_EQ(plan.tensors[1].first_piece, whole.last_piece);
  }
}

}  // namespace
}  // namespace coxswain::backend::cuda
