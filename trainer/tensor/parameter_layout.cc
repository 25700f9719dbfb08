#include "trainer/tensor/parameter_layout.h"

#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "trainer/tensor/fnv1a.h"

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

std::int64_t ParameterLayout::frozen_count() const {
  std::int64_t count = 0;
  for (const Segment& segment : segments)
    if (segment.kind == SegmentKind::kFrozen) count += segment.elements();
  return count;
}

std::optional<int> ParameterLayout::find(std::string_view name) const {
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].name == name) return static_cast<int>(i);
  }
  return std::nullopt;
}

ParameterLayout pack(std::vector<Segment> segments) {
  segments.push_back(
      {"control", SegmentKind::kControl, {kControlFloats}, 0, kControlFloats, "canonical"});
  std::int64_t offset = 0;
  for (Segment& segment : segments) {
    segment.offset = offset;
    offset += round_up(segment.stored);
  }
  return {std::move(segments)};
}

std::uint64_t hash_of(const ParameterLayout& layout) {
  Fnv1a hash;  // a byte at a time
  const auto add_number = [&](std::int64_t value) {
    for (int shift = 0; shift < 64; shift += 8)
      hash.add(static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> shift));
  };
  const auto add_text = [&](const std::string& text) {
    add_number(std::ssize(text));
    for (const char c : text) add_number(static_cast<unsigned char>(c));
  };
  for (const Segment& s : layout.segments) {
    add_text(s.name);
    add_number(static_cast<std::int64_t>(s.kind));
    add_number(std::ssize(s.dims));
    for (const std::int64_t dim : s.dims) add_number(dim);
    add_number(s.offset);
    add_number(s.stored);
    add_text(s.layout);
  }
  return hash.hash();
}

}  // namespace coxswain::tensor
