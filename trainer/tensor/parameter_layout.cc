#include "trainer/tensor/parameter_layout.h"

#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace coxswain::tensor {

namespace {

constexpr std::int64_t kAlignment = 16;  // floats: 64 bytes, a cache line and an AVX-512 register

std::int64_t round_up(std::int64_t value) {
  return (value + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::int64_t Segment::elements() const {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t ParameterLayout::size() const {
  return segments.empty() ? 0 : round_up(segments.back().end());
}

std::int64_t ParameterLayout::parameter_count() const {
  std::int64_t count = 0;
  for (const Segment& segment : segments) {
    if (is_trainable(segment.kind)) count += segment.elements();
  }
  return count;
}

std::optional<int> ParameterLayout::find(std::string_view name) const {
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].name == name) return static_cast<int>(i);
  }
  return std::nullopt;
}

ParameterLayout pack(std::vector<Segment> segments) {
  segments.push_back({"control", SegmentKind::kControl, {kControlFloats}, 0, kControlFloats, "canonical"});
  std::int64_t offset = 0;
  for (Segment& segment : segments) {
    segment.offset = offset;
    offset += round_up(segment.stored);
  }
  return {std::move(segments)};
}

std::uint64_t hash_of(const ParameterLayout& layout) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a, 64 bits
  for (const Segment& s : layout.segments) {
    const std::string text = fmt::format("{}|{}|{}|{}|{}|{};", s.name, static_cast<int>(s.kind),
                                         fmt::join(s.dims, ","), s.offset, s.stored, s.layout);
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return hash;
}

}  // namespace coxswain::tensor
