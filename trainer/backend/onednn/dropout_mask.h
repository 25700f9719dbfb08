#pragma once

#include <cstdint>

namespace coxswain::backend::onednn {

// Value. The random numbers of one dropout layer for one sample: Philox words at counter (sample,
// epoch, stream, index / 4), see tensor/philox.h.
struct DropoutStream {
  std::uint64_t seed = 0;
  std::uint32_t sample = 0;
  std::uint32_t epoch = 0;
  std::uint32_t stream = 0;
  float rate = 0;
};

// kept[i] = 1 where the uniform number i is at least the rate, else 0; i counts in canonical (c, h,
// w).
void fill_dropout_mask(const DropoutStream& stream, std::int64_t count, std::uint8_t* kept);

}  // namespace coxswain::backend::onednn
