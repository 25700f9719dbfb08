#include "trainer/train/buckets.h"

#include <algorithm>
#include <cmath>

namespace coxswain::train {

std::vector<Range> make_buckets(const tensor::ParameterLayout& layout, std::int64_t bytes) {
  std::vector<Range> buckets;
  Range open;
  for (std::size_t next = 1; next < layout.segments.size(); ++next) {
    open.length = layout.segments[next].offset - open.offset;
    if (open.length * static_cast<std::int64_t>(sizeof(float)) < bytes) continue;
    buckets.push_back(open);
    open = {open.end(), 0};
  }
  open.length = layout.size() - open.offset;
  buckets.push_back(open);
  return buckets;
}

std::vector<Range> to_whole_blocks(const std::vector<Range>& ranges, std::int64_t block) {
  const std::int64_t size = ranges.back().end();
  std::vector<Range> whole;
  std::int64_t begin = 0;
  for (const Range& range : ranges) {
    const std::int64_t end = std::min(size, (range.end() + block - 1) / block * block);
    if (end > begin) whole.push_back({begin, end - begin});
    begin = end;
  }
  return whole;
}

std::int64_t best_bucket_bytes(std::int64_t model_bytes, double seconds_per_message,
                               double seconds_per_byte) {
  constexpr std::int64_t kSmallest = 64 << 10;
  const double best =
      std::sqrt(seconds_per_message * static_cast<double>(model_bytes) / seconds_per_byte);
  return std::clamp(static_cast<std::int64_t>(best), kSmallest, std::max(kSmallest, model_bytes));
}

}  // namespace coxswain::train
