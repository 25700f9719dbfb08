#include "trainer/train/padding.h"

namespace coxswain::train {

std::vector<Range> padding_of(backend::Backend& backend, const tensor::ParameterLayout& layout) {
  std::vector<Range> padding;
  for (const tensor::Segment& segment : layout.segments) {
    if (segment.kind == tensor::SegmentKind::kControl || segment.stored == segment.elements())
      continue;
    std::vector<float> stored(static_cast<std::size_t>(segment.stored));
    const std::vector<float> ones(static_cast<std::size_t>(segment.elements()), 1.0F);
    backend.from_canonical(segment, ones, stored);
    for (std::int64_t i = 0; i < segment.stored; ++i) {
      if (stored[static_cast<std::size_t>(i)] != 0) continue;
      const std::int64_t at = segment.offset + i;
      if (padding.empty() || padding.back().end() != at) padding.push_back({at, 0});
      ++padding.back().length;
    }
  }
  return padding;
}

}  // namespace coxswain::train
