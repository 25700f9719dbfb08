#include "trainer/train/padding.h"

#include <algorithm>

namespace coxswain::train {

std::vector<Range> padding_of(backend::Backend& backend, const tensor::ParameterLayout& layout) {
  const tensor::Segment& control = layout.control();
  std::vector<float> filled(static_cast<std::size_t>(control.offset));
  for (const tensor::Segment& segment : layout.segments) {
    if (segment.offset == control.offset) break;
    const std::vector<float> ones(static_cast<std::size_t>(segment.elements()), 1.0F);
    backend.from_canonical(segment, ones,
                           std::span(filled).subspan(static_cast<std::size_t>(segment.offset),
                                                     static_cast<std::size_t>(segment.stored)));
  }
  std::vector<Range> padding;
  for (std::int64_t at = 0; at < control.offset; ++at) {
    if (filled[static_cast<std::size_t>(at)] != 0) continue;
    if (padding.empty() || padding.back().end() != at) padding.push_back({at, 0});
    ++padding.back().length;
  }
  return padding;
}

std::vector<Range> changed_padding(const compress::Codec& codec, backend::Backend& backend,
                                   const tensor::ParameterLayout& layout) {
  if (codec.kind != Compression::kOneBit) return {};
  return padding_of(backend, layout);
}

void clear(const std::vector<Range>& padding, std::span<float> flat) {
  for (const Range& range : padding)
    std::ranges::fill(flat.subspan(static_cast<std::size_t>(range.offset),
                                   static_cast<std::size_t>(range.length)),
                      0.0F);
}

}  // namespace coxswain::train
