#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/backend/executable.h"

namespace coxswain::backend {

// BatchNorm over the rows of all ranks (graph::Node::joined): what ranks give to each other. As
// PyTorch's SyncBatchNorm: forward each rank's moments, backward its sums over d(output).

// What every rank gave, in rank order; this rank's own alone where it trains alone.
std::span<const float> gathered(AllGather* ranks, std::span<float> own);

// Resource. The moments of one norm's batch. Memory is kept from step to step.
class JoinedMoments {
 public:
  explicit JoinedMoments(std::int64_t channels)
      : mean_(static_cast<std::size_t>(channels)), variance_(static_cast<std::size_t>(channels)) {}

  // `mean` and (biased) `variance` (C) of this rank's `rows`, of which all have as many cells. In
  // double, in rank order: the same bits on all ranks (Chan, Golub, LeVeque 1979, "Updating
  // formulae", 2.1).
  void join(AllGather* ranks, std::int64_t rows, std::span<const float> mean,
            std::span<const float> variance);

  std::int64_t rows() const { return rows_; }
  std::span<const double> mean() const { return mean_; }
  std::span<const double> variance() const { return variance_; }

 private:
  std::vector<float> own_;  // rows, means, variances
  std::int64_t rows_ = 0;
  std::vector<double> mean_;
  std::vector<double> variance_;
};

// The sums over all ranks of what each has, in rank order. `sums` are as many as `own`.
void add_gathered(AllGather* ranks, std::span<float> own, std::span<double> sums);

}  // namespace coxswain::backend
