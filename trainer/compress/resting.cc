#include <algorithm>
#include <cstring>
#include <limits>

#include "trainer/compress/half.h"
#include "trainer/compress/kinds.h"

namespace coxswain::compress {

void encode_resting(const Encoding& to) {
  float said = 0;
  for (std::size_t i = 0; i < to.gradients.size(); ++i) {
    const float sum = to.gradients[i] + to.residual[i];
    if (!is_finite(sum)) said = std::numeric_limits<float>::quiet_NaN();
    to.left[i] = is_finite(sum) ? sum : to.residual[i];
  }
  std::memcpy(to.bytes.data(), &said, sizeof said);
}

void decode_resting(std::span<const std::byte> bytes, std::span<float> gradients) {
  float said = 0;
  std::memcpy(&said, bytes.data(), sizeof said);
  if (is_finite(said) && said != 0) refuse("a number for gradients whose turn it is not");
  std::ranges::fill(gradients, said);
}

}  // namespace coxswain::compress
