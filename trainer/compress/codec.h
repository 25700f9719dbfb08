#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/options/options.h"

// PURE: gradients as fewer bytes.
namespace coxswain::compress {

// Value. How gradients are written on their way.
struct Codec {
  Compression kind = Compression::kNone;
  float threshold = 0.5F;  // 2bit: what is sent of a gradient, if anything
  double ratio = 0.05;     // topk: the share of the gradients that is sent
  int parts = 1;           // of the blocks, of which each step sends one, in turn
  // Whether anything of a step's gradients is left out.
  bool encodes() const { return kind != Compression::kNone || parts > 1; }
  bool operator==(const Codec&) const = default;
};

// As many as both sides know of before anything is sent.
std::int64_t encoded_bytes(const Codec& codec, std::int64_t floats);

// Writes gradients + residual, as far as the bytes can say it. What they do not say is `left`: the
// residual of the next step (error feedback: Seide et al., "1-bit stochastic gradient descent",
// Interspeech 2014). A sum that is not finite is not finite to the reader either, and what was its
// residual is left. `left` may be `residual`.
void encode(const Codec& codec, std::span<const float> gradients, std::span<const float> residual,
            std::span<std::byte> bytes, std::span<float> left);

// Throws Error(71) for bytes that encode() does not write for so many gradients.
void decode(const Codec& codec, std::span<const std::byte> bytes, std::span<float> gradients);

}  // namespace coxswain::compress
