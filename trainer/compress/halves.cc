#include <cstring>

#include "trainer/compress/half.h"
#include "trainer/compress/kinds.h"

namespace coxswain::compress {

namespace {

template <typename ToHalf, typename FromHalf>
void encode_as(const Encoding& to, const ToHalf& to_half, const FromHalf& from_half) {
  for (std::size_t i = 0; i < to.gradients.size(); ++i) {
    const float before = to.residual[i];
    const float sum = to.gradients[i] + before;
    const std::uint16_t half = to_half(sum);
    const float left = sum - from_half(half);
    std::memcpy(to.bytes.data() + i * sizeof half, &half, sizeof half);
    to.left[i] = is_finite(sum) ? left : before;
  }
}

template <typename FromHalf>
void decode_as(std::span<const std::byte> bytes, const FromHalf& from_half,
               std::span<float> gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data() + i * sizeof half, sizeof half);
    gradients[i] = from_half(half);
  }
}

}  // namespace

void encode_fp16(const Encoding& to) { encode_as(to, to_fp16, tensor::from_float16); }
void decode_fp16(std::span<const std::byte> bytes, std::span<float> gradients) {
  decode_as(bytes, tensor::from_float16, gradients);
}

void encode_bf16(const Encoding& to) { encode_as(to, to_bf16, tensor::from_bfloat16); }
void decode_bf16(std::span<const std::byte> bytes, std::span<float> gradients) {
  decode_as(bytes, tensor::from_bfloat16, gradients);
}

}  // namespace coxswain::compress
