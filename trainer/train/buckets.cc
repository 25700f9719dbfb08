#include "trainer/train/buckets.h"

#include <algorithm>
#include <cmath>

namespace coxswain::train {

std::vector<Bucket> make_buckets(const tensor::ParameterLayout& layout, std::int64_t bytes) {
  std::vector<Bucket> buckets;
  const int num_segments = static_cast<int>(layout.segments.size());
  const auto floats = [](const Bucket& b) {
    return b.length * static_cast<std::int64_t>(sizeof(float));
  };
  Bucket open;
  for (int i = 0; i < num_segments; ++i) {
    const bool last = i + 1 == num_segments;
    const std::int64_t end =
        last ? layout.size() : layout.segments[static_cast<std::size_t>(i) + 1].offset;
    open.last = i + 1;
    open.length = end - open.offset;
    if (floats(open) >= bytes && !last) {
      buckets.push_back(open);
      open = {i + 1, i + 1, end, 0};
    }
  }
  buckets.push_back(open);
  return buckets;
}

std::int64_t best_bucket_bytes(std::int64_t model_bytes, double seconds_per_message,
                               double seconds_per_byte) {
  constexpr std::int64_t kSmallest = 64 << 10;
  const double best =
      std::sqrt(seconds_per_message * static_cast<double>(model_bytes) / seconds_per_byte);
  return std::clamp(static_cast<std::int64_t>(best), kSmallest, std::max(kSmallest, model_bytes));
}

}  // namespace coxswain::train
