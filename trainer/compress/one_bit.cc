#include <cmath>
#include <cstring>
#include <limits>

#include "trainer/compress/half.h"
#include "trainer/compress/kinds.h"

namespace coxswain::compress {

namespace {

// The magnitude, then eight signs in a byte, the first one lowest; 1: negative.
constexpr std::size_t kSignsInByte = 8;

// In order; NaN unless all are finite.
float mean_magnitude(const Encoding& of) {
  double total = 0;
  bool finite = true;
  for (std::size_t i = 0; i < of.gradients.size(); ++i) {
    const float sum = of.gradients[i] + of.residual[i];
    finite = finite && is_finite(sum);
    total += std::fabs(static_cast<double>(sum));
  }
  if (!finite) return std::numeric_limits<float>::quiet_NaN();
  return of.gradients.empty()
             ? 0
             : static_cast<float>(total / static_cast<double>(of.gradients.size()));
}

}  // namespace

std::int64_t one_bit_bytes(std::int64_t floats) {
  return static_cast<std::int64_t>(sizeof(float)) + (floats + 7) / 8;
}

void encode_one_bit(const Encoding& to) {
  const float magnitude = mean_magnitude(to);
  const bool finite = is_finite(magnitude);
  std::memcpy(to.bytes.data(), &magnitude, sizeof magnitude);
  const std::span<std::byte> signs = to.bytes.subspan(sizeof magnitude);
  const std::size_t count = to.gradients.size();
  for (std::size_t first = 0; first < count; first += kSignsInByte) {
    unsigned byte = 0;
    for (std::size_t i = first; i < std::min(first + kSignsInByte, count); ++i) {
      const float before = to.residual[i];
      const float sum = to.gradients[i] + before;
      const bool negative = finite && sum < 0;
      to.left[i] = finite ? sum - (negative ? -magnitude : magnitude) : before;
      byte |= static_cast<unsigned>(negative) << (i - first);
    }
    signs[first / kSignsInByte] = static_cast<std::byte>(byte);
  }
}

void decode_one_bit(std::span<const std::byte> bytes, std::span<float> gradients) {
  float magnitude = 0;
  std::memcpy(&magnitude, bytes.data(), sizeof magnitude);
  if (std::signbit(magnitude) || std::isinf(magnitude)) refuse("1bit gradients of no magnitude");
  const std::span<const std::byte> signs = bytes.subspan(sizeof magnitude);
  const float meaning[] = {magnitude, -magnitude};
  for (std::size_t i = 0; i < gradients.size(); ++i)
    gradients[i] =
        meaning[static_cast<unsigned>(signs[i / kSignsInByte]) >> (i % kSignsInByte) & 1U];
  const std::size_t rest = gradients.size() % kSignsInByte;
  if (rest != 0 && static_cast<unsigned>(signs.back()) >> rest != 0)
    refuse("1bit gradients beyond the last one");
}

}  // namespace coxswain::compress
