#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::tensor {

// kFrozen: a weight of any kind that training leaves as it is.
enum class SegmentKind { kWeight, kBias, kGamma, kBeta, kFrozen, kStatistic, kControl };

constexpr bool is_trainable(SegmentKind kind) { return kind < SegmentKind::kFrozen; }

// Value. One tensor's place in the flat buffer. Offsets and lengths count floats.
struct Segment {
  std::string name;  // "conv1.weight", "bn1.running_mean", "control"
  SegmentKind kind = SegmentKind::kWeight;
  std::vector<std::int64_t> dims;    // logical, canonical order: (K, C, R, S), (out, in) or (C)
  std::int64_t offset = 0;           // a multiple of 16 floats, 64 bytes
  std::int64_t stored = 0;           // floats occupied: logical elements and the backend's padding
  std::string layout = "canonical";  // the backend's own word for the inner order

  std::int64_t elements() const;
  std::int64_t end() const { return offset + stored; }
  bool operator==(const Segment&) const = default;
};

// Value. The map of the flat buffer that weights, gradients and optimizer slots share.
//
// Order: statistics, then trainable segments in the order in which backward completes their
// gradients, then one control segment. So "ready so far" is always one range from the front, and a
// bucket, a server's shard and a checkpoint are slices of the same bytes. Padding is zero
// everywhere.
struct ParameterLayout {
  std::vector<Segment> segments;

  std::int64_t size() const;             // floats, a multiple of 16
  std::int64_t parameter_count() const;  // logical elements of trainable segments
  std::int64_t frozen_count() const;     // beside them
  std::optional<int> find(std::string_view name) const;
  const Segment& control() const { return segments.back(); }
  bool operator==(const ParameterLayout&) const = default;
};

// Floats of the control segment (docs/design.md, "Control segment"): what every step sums over all
// ranks beside the gradients.
constexpr std::int64_t kControlFloats = 16;

// Sets offsets one after another, each a multiple of 64 bytes, and appends the control segment.
ParameterLayout pack(std::vector<Segment> segments);

// Of names, kinds, dims, offsets and inner layouts: equal on all ranks that may exchange raw
// slices.
std::uint64_t hash_of(const ParameterLayout& layout);

}  // namespace coxswain::tensor
