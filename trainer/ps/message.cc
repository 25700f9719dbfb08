#include "trainer/ps/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "trainer/contract/error.h"

namespace coxswain::ps {

namespace {

constexpr int kPartShift = 8;
constexpr std::size_t kBeforeSegments = 2;  // numbers of a Beginning
constexpr std::size_t kOfSegment = 2;
constexpr std::int64_t kMaxFloats = std::int64_t{1} << 40;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ExitCode::kPeerLost, "[ps] " + what + ": no process of this job says that");
}

std::int64_t number(std::uint64_t value, std::int64_t most, const char* name) {
  if (value > static_cast<std::uint64_t>(most)) refuse(fmt::format("{} {}", name, value));
  return static_cast<std::int64_t>(value);
}

bool is_of_floats(Say what) {
  switch (what) {
    case Say::kState:
    case Say::kSums:
    case Say::kWeights:
    case Say::kSlots:
    case Say::kOutcome:
      return true;
    default:
      return false;
  }
}

}  // namespace

net::Label label_of(const Message& message) {
  return {.tag = static_cast<std::uint32_t>(message.what) | static_cast<std::uint32_t>(message.part)
                                                                << kPartShift,
          .sequence = static_cast<std::uint64_t>(message.step),
          .offset = static_cast<std::uint64_t>(message.offset)};
}

Message message_of(const net::FrameHead& head) {
  const std::uint32_t what = head.label.tag & ((1U << kPartShift) - 1);
  if (what < static_cast<std::uint32_t>(Say::kBeginning) ||
      what > static_cast<std::uint32_t>(Say::kStatus))
    refuse(fmt::format("a message of kind {}", what));
  if (is_of_floats(static_cast<Say>(what)) && head.length % sizeof(float) != 0)
    refuse(fmt::format("{} bytes of floats", head.length));
  return {.what = static_cast<Say>(what),
          .step = number(head.label.sequence, std::numeric_limits<std::int64_t>::max() - 1, "step"),
          .part = static_cast<int>(head.label.tag >> kPartShift),
          .offset = number(head.label.offset, kMaxFloats, "offset"),
          .bytes = static_cast<std::int64_t>(head.length)};
}

Numbers encode(const Beginning& beginning) {
  Numbers numbers = {beginning.step, beginning.update_count};
  for (const tensor::Segment& segment : beginning.layout.segments) {
    if (segment.kind == tensor::SegmentKind::kControl) continue;
    numbers.push_back(static_cast<std::int64_t>(segment.kind));
    numbers.push_back(segment.stored);
  }
  return numbers;
}

Beginning decode_beginning(std::span<const std::byte> bytes) {
  Numbers numbers(bytes.size() / sizeof(std::int64_t));
  if (numbers.size() < kBeforeSegments || (numbers.size() - kBeforeSegments) % kOfSegment != 0)
    refuse(fmt::format("a beginning of {} numbers", numbers.size()));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::int64_t));
  if (numbers[0] < 0 || numbers[1] < 0)
    refuse(fmt::format("step {}, update {}", numbers[0], numbers[1]));
  std::vector<tensor::Segment> segments;
  std::int64_t floats = 0;
  for (std::size_t at = kBeforeSegments; at < numbers.size(); at += kOfSegment) {
    const std::int64_t kind = numbers[at], stored = numbers[at + 1];
    if (kind < 0 || kind >= static_cast<std::int64_t>(tensor::SegmentKind::kControl))
      refuse(fmt::format("a segment of kind {}", kind));
    if (stored < 1 || stored > kMaxFloats - floats)
      refuse(fmt::format("a segment of {} floats", stored));
    floats += stored;
    tensor::Segment& segment = segments.emplace_back();
    segment.kind = static_cast<tensor::SegmentKind>(kind);
    segment.stored = stored;
  }
  return {tensor::pack(std::move(segments)), numbers[0], numbers[1]};
}

Terms encode(const optim::UpdateStep& step) {
  return {step.lr, step.momentum, step.statistic_parts};
}

optim::UpdateStep decode_terms(std::span<const std::byte> bytes) {
  Terms terms{};
  std::memcpy(terms.data(), bytes.data(), std::min(bytes.size(), sizeof terms));
  return {.lr = terms[0], .momentum = terms[1], .update_count = 0, .statistic_parts = terms[2]};
}

std::int64_t updates_since(int version, std::int64_t update_count) {
  const std::int64_t since = (update_count - version) % kVersions;
  return since < kVersions / 2 ? std::max<std::int64_t>(0, since) : 0;
}

}  // namespace coxswain::ps
