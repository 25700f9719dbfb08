#include "trainer/compress/block_form.h"

#include <algorithm>
#include <cstring>

#include "trainer/compress/kinds.h"

namespace coxswain::compress {

namespace {

// The statistics stand before all of them.
std::int64_t first_gradient_of(const tensor::ParameterLayout& layout) {
  const auto first = std::ranges::find_if(
      layout.segments, [](const auto& segment) { return tensor::is_trainable(segment.kind); });
  return first == layout.segments.end() ? layout.size() : first->offset;
}

}  // namespace

BlockForm::BlockForm(const tensor::ParameterLayout& layout, const Codec& codec, Turn turn)
    : codec_(codec),
      rests_(turn == Turn::kRests),
      first_gradient_(first_gradient_of(layout)),
      end_of_gradients_(layout.control().offset) {}

BlockForm::Parts BlockForm::parts_of(std::int64_t offset, std::int64_t length) const {
  const std::int64_t end = offset + length;
  const std::int64_t first = std::clamp(first_gradient_, offset, end);
  const std::int64_t last = std::clamp(end_of_gradients_, first, end);
  return {static_cast<std::size_t>(first - offset), static_cast<std::size_t>(last - first),
          static_cast<std::size_t>(end - last)};
}

std::int64_t BlockForm::bytes_of(std::int64_t offset, std::int64_t length) const {
  const Parts parts = parts_of(offset, length);
  if (parts.gradients == 0) return static_cast<std::int64_t>(parts.exact_bytes());
  const auto gradients = static_cast<std::int64_t>(parts.gradients);
  return static_cast<std::int64_t>(parts.exact_bytes()) +
         (rests_ ? kRestingBytes : encoded_bytes(codec_, gradients));
}

void BlockForm::encode(std::int64_t offset, std::span<const float> floats,
                       std::span<const float> residual, std::span<std::byte> bytes,
                       std::span<float> left) const {
  const Parts parts = parts_of(offset, std::ssize(floats));
  const auto head = std::as_bytes(floats.first(parts.head));
  const auto tail = std::as_bytes(floats.last(parts.tail));
  std::ranges::copy(head, bytes.begin());
  std::ranges::copy(tail, bytes.last(tail.size()).begin());
  if (parts.gradients == 0) return;
  const Encoding to{floats.subspan(parts.head, parts.gradients),
                    residual.subspan(parts.head, parts.gradients), between(bytes, parts),
                    left.subspan(parts.head, parts.gradients)};
  if (rests_) return encode_resting(to);
  compress::encode(codec_, to.gradients, to.residual, to.bytes, to.left);
}

void BlockForm::decode(std::int64_t offset, std::span<const std::byte> bytes,
                       std::span<float> floats) const {
  const Parts parts = parts_of(offset, std::ssize(floats));
  const auto head = std::as_writable_bytes(floats.first(parts.head));
  const auto tail = std::as_writable_bytes(floats.last(parts.tail));
  std::ranges::copy(bytes.first(head.size()), head.begin());
  std::ranges::copy(bytes.last(tail.size()), tail.begin());
  if (parts.gradients == 0) return;
  const auto gradients = floats.subspan(parts.head, parts.gradients);
  if (rests_) return decode_resting(between(bytes, parts), gradients);
  compress::decode(codec_, between(bytes, parts), gradients);
}

}  // namespace coxswain::compress
