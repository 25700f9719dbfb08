#include "trainer/backend/cuda/update_plan.h"

#include <algorithm>

#include "trainer/backend/cuda/orthogonaliser.h"

namespace coxswain::backend::cuda {

namespace {

constexpr std::int64_t kFloatsOfPiece = 2048;  // at least
constexpr std::int64_t kMostPieces = 512;      // of a tensor: the sums of all are added one by one

Change change_of(const tensor::Segment& segment, OptimizerKind kind, DecayScope scope) {
  if (segment.kind == tensor::SegmentKind::kStatistic) return Change::kStatistic;
  if (!tensor::is_trainable(segment.kind)) return Change::kNothing;
  if (kind == OptimizerKind::kMuon && is_matrix(segment)) return Change::kMatrix;
  return optim::decays(scope, segment.kind) ? Change::kDecayed : Change::kUndecayed;
}

// Of Muon's tensors the matrices alone.
bool depends_on_all(const tensor::Segment& segment, OptimizerKind kind) {
  if (kind == OptimizerKind::kMuon) return is_matrix(segment);
  return is_layerwise(kind) && tensor::is_trainable(segment.kind);
}

float longer_side(const tensor::Segment& segment) {
  const std::int64_t rows = segment.dims[0];
  return static_cast<float>(std::max(rows, segment.elements() / rows));
}

std::vector<Piece> pieces_of(const tensor::Segment& segment) {
  const std::int64_t each =
      std::max(kFloatsOfPiece, (segment.stored + kMostPieces - 1) / kMostPieces);
  std::vector<Piece> pieces;
  for (std::int64_t first = segment.offset; first < segment.end(); first += each)
    pieces.push_back({first, std::min(first + each, segment.end())});
  return pieces;
}

// Those of `of`, a value a granule, that belong to the segment.
template <typename T>
void set(std::vector<T>& of, const tensor::Segment& segment, T value) {
  const std::int64_t last = (segment.end() + kGranule - 1) / kGranule;
  std::fill(of.begin() + segment.offset / kGranule, of.begin() + last, value);
}

}  // namespace

UpdatePlan plan_update(const tensor::ParameterLayout& layout, OptimizerKind kind,
                       DecayScope scope) {
  const auto granules = static_cast<std::size_t>(layout.size() / kGranule);
  UpdatePlan plan;
  plan.changes.resize(granules);
  if (is_layerwise(kind)) plan.tensor_of.resize(granules, -1);
  for (const tensor::Segment& segment : layout.segments) {
    set(plan.changes, segment, change_of(segment, kind, scope));
    if (!depends_on_all(segment, kind)) continue;
    set(plan.tensor_of, segment, static_cast<std::int32_t>(plan.tensors.size()));
    const auto first = static_cast<std::int32_t>(plan.pieces.size());
    const std::vector<Piece> pieces = pieces_of(segment);
    plan.pieces.insert(plan.pieces.end(), pieces.begin(), pieces.end());
    plan.tensors.push_back({first, static_cast<std::int32_t>(plan.pieces.size()),
                            segment.kind == tensor::SegmentKind::kWeight, longer_side(segment)});
  }
  return plan;
}

}  // namespace coxswain::backend::cuda
