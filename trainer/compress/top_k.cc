#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "trainer/compress/half.h"
#include "trainer/compress/kinds.h"

namespace coxswain::compress {

namespace {

// Value. As it lies in the bytes.
struct Entry {
  std::uint32_t index = 0;  // rising
  float value = 0;
};

// Of a float; those that are not finite are the largest.
std::uint32_t magnitude_of(float value) { return std::bit_cast<std::uint32_t>(value) & ~kSign; }

using Counts = std::vector<std::uint32_t>;  // of each digit of 16 bits

// The digit of the `rank`-th largest, from 1; what is left of the rank among those that share it.
std::uint32_t find_digit(const Counts& counts, std::size_t& rank) {
  auto digit = static_cast<std::uint32_t>(counts.size() - 1);
  for (; counts[digit] < rank; --digit) rank -= counts[digit];
  return digit;
}

// Value. The magnitude of the k-th largest, and how many of exactly that one are among the k.
struct Cut {
  std::uint32_t magnitude = 0;
  std::size_t equal = 0;
};

// A radix select: as fast for any gradients.
Cut cut_at(std::span<const float> sums, std::size_t k) {
  Counts counts(std::size_t{1} << 16);
  for (const float sum : sums) ++counts[magnitude_of(sum) >> 16];
  const std::uint32_t upper = find_digit(counts, k);
  std::ranges::fill(counts, 0);
  for (const float sum : sums) {
    const std::uint32_t magnitude = magnitude_of(sum);
    if (magnitude >> 16 == upper) ++counts[magnitude & 0xFFFFU];
  }
  const std::uint32_t lower = find_digit(counts, k);
  return {upper << 16 | lower, k};
}

}  // namespace

std::int64_t top_k_bytes(std::int64_t floats, double ratio) {
  const auto kept = static_cast<std::int64_t>(std::ceil(static_cast<double>(floats) * ratio));
  return std::min(floats, kept) * static_cast<std::int64_t>(sizeof(Entry));
}

// Of equal ones the first.
void encode_top_k(const Encoding& to) {
  const std::size_t k = to.bytes.size() / sizeof(Entry);
  if (k == 0) return;
  std::vector<float> sums(to.gradients.size());
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = to.gradients[i] + to.residual[i];
  Cut cut = cut_at(sums, k);
  std::byte* at = to.bytes.data();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::uint32_t magnitude = magnitude_of(sums[i]);
    const bool is_equal = magnitude == cut.magnitude && cut.equal > 0;
    const bool is_sent = magnitude > cut.magnitude || is_equal;
    if (is_equal) --cut.equal;
    if (is_sent) {
      const Entry entry{static_cast<std::uint32_t>(i), sums[i]};
      std::memcpy(at, &entry, sizeof entry);
      at += sizeof entry;
    }
    const float unsent = is_sent ? 0 : sums[i];
    to.left[i] = is_finite(sums[i]) ? unsent : to.residual[i];
  }
}

void decode_top_k(std::span<const std::byte> bytes, std::span<float> gradients) {
  std::ranges::fill(gradients, 0.0F);
  std::int64_t before = -1;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Entry)) {
    Entry entry;
    std::memcpy(&entry, bytes.data() + at, sizeof entry);
    if (entry.index >= gradients.size() || entry.index <= before)
      refuse(fmt::format("gradient {} of {} after {}", entry.index, gradients.size(), before));
    before = entry.index;
    gradients[entry.index] = entry.value;
  }
}

}  // namespace coxswain::compress
