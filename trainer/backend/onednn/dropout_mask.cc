#include "trainer/backend/onednn/dropout_mask.h"

#include <algorithm>
#include <cmath>

#include "trainer/backend/onednn/vector_isa.h"

namespace coxswain::backend::onednn {

namespace {

constexpr int kLanes = 32;  // counters computed side by side, four words each

// tensor::philox for kLanes consecutive indices, words interleaved as elements want them.
[[gnu::always_inline]] inline void philox_block(const DropoutStream& s, std::uint32_t first_index,
                                                std::uint32_t* words) {
  alignas(64) std::uint32_t c0[kLanes];
  alignas(64) std::uint32_t c1[kLanes];
  alignas(64) std::uint32_t c2[kLanes];
  alignas(64) std::uint32_t c3[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    c0[i] = s.sample;
    c1[i] = s.epoch;
    c2[i] = s.stream;
    c3[i] = first_index + static_cast<std::uint32_t>(i);
  }
  auto k0 = static_cast<std::uint32_t>(s.seed);
  auto k1 = static_cast<std::uint32_t>(s.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0[i];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c2[i];
      c0[i] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c1[i] = static_cast<std::uint32_t>(p1);
      c2[i] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c3[i] = static_cast<std::uint32_t>(p0);
    }
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  for (int i = 0; i < kLanes; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

struct MaskBody {
  [[gnu::always_inline]] static void run(const DropoutStream* s, std::uint32_t threshold,
                                         std::int64_t count, std::uint8_t* kept) {
    alignas(64) std::uint32_t words[4 * kLanes];
    for (std::int64_t at = 0; at < count; at += 4 * kLanes) {
      philox_block(*s, static_cast<std::uint32_t>(at / 4), words);
      const std::int64_t n = std::min<std::int64_t>(4 * kLanes, count - at);
      for (std::int64_t i = 0; i < n; ++i) kept[at + i] = (words[i] >> 8) >= threshold ? 1 : 0;
    }
  }
};

}  // namespace

void fill_dropout_mask(const DropoutStream& stream, std::int64_t count, std::uint8_t* kept) {
  // to_uniform(word) >= rate, as a comparison of the 24 bits that to_uniform takes.
  const auto threshold =
      static_cast<std::uint32_t>(std::ceil(static_cast<double>(stream.rate) * 0x1.0p24));
  run_widest<MaskBody>(&stream, threshold, count, kept);
}

}  // namespace coxswain::backend::onednn
