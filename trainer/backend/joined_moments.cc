#include "trainer/backend/joined_moments.h"

#include <algorithm>

#include "trainer/tensor/host_span.h"

namespace coxswain::backend {

std::span<const float> gathered(AllGather* ranks, std::span<float> own) {
  return ranks == nullptr ? own : tensor::host_span(ranks->gather(own));
}

void JoinedMoments::join(AllGather* ranks, std::int64_t rows, std::span<const float> mean,
                         std::span<const float> variance) {
  const std::size_t channels = mean_.size();
  own_.assign(1, static_cast<float>(rows));  // exact: a rank has fewer than 2^24
  own_.insert(own_.end(), mean.begin(), mean.end());
  own_.insert(own_.end(), variance.begin(), variance.end());
  std::ranges::fill(mean_, 0.0);
  std::ranges::fill(variance_, 0.0);  // times the rows, until the end
  double all = 0;
  for (auto rest = gathered(ranks, own_); !rest.empty(); rest = rest.subspan(own_.size())) {
    const double more = rest[0];
    const auto means = rest.subspan(1, channels);
    const auto variances = rest.subspan(1 + channels, channels);
    for (std::size_t c = 0; c < channels; ++c) {
      const double apart = means[c] - mean_[c];
      mean_[c] += apart * more / (all + more);
      variance_[c] += variances[c] * more + apart * apart * all * more / (all + more);
    }
    all += more;
  }
  for (double& one : variance_) one /= all;
  rows_ = static_cast<std::int64_t>(all);
}

void add_gathered(AllGather* ranks, std::span<float> own, std::span<double> sums) {
  std::ranges::fill(sums, 0.0);
  for (auto rest = gathered(ranks, own); !rest.empty(); rest = rest.subspan(own.size()))
    for (std::size_t i = 0; i < own.size(); ++i) sums[i] += static_cast<double>(rest[i]);
}

}  // namespace coxswain::backend
