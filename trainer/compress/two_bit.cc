#include <limits>

#include "trainer/compress/half.h"
#include "trainer/compress/kinds.h"

namespace coxswain::compress {

namespace {

// Four in a byte, the first one lowest.
constexpr std::size_t kPairsInByte = 4;
constexpr unsigned kNothing = 0, kPlus = 1, kMinus = 2, kNotFinite = 3;

}  // namespace

std::int64_t two_bit_bytes(std::int64_t floats) { return (floats + 3) / 4; }

void encode_two_bit(const Encoding& to, float threshold) {
  const std::size_t count = to.gradients.size();
  for (std::size_t first = 0; first < count; first += kPairsInByte) {
    unsigned byte = 0;
    for (std::size_t i = first; i < std::min(first + kPairsInByte, count); ++i) {
      const float before = to.residual[i];
      const float sum = to.gradients[i] + before;
      const bool plus = sum >= threshold, minus = sum <= -threshold, finite = is_finite(sum);
      const float sent = (plus ? threshold : 0.0F) - (minus ? threshold : 0.0F);
      const unsigned code = (plus ? kPlus : kNothing) | (minus ? kMinus : kNothing);
      to.left[i] = finite ? sum - sent : before;
      byte |= (finite ? code : kNotFinite) << (2 * (i - first));
    }
    to.bytes[first / kPairsInByte] = static_cast<std::byte>(byte);
  }
}

void decode_two_bit(std::span<const std::byte> bytes, float threshold, std::span<float> gradients) {
  const float meaning[] = {0.0F, threshold, -threshold, std::numeric_limits<float>::quiet_NaN()};
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto byte = static_cast<unsigned>(bytes[i / kPairsInByte]);
    gradients[i] = meaning[byte >> (2 * (i % kPairsInByte)) & 3U];
  }
  const std::size_t rest = gradients.size() % kPairsInByte;
  if (rest != 0 && static_cast<unsigned>(bytes.back()) >> (2 * rest) != 0)
    refuse("2bit gradients beyond the last one");
}

}  // namespace coxswain::compress
