#include "trainer/compress/codec.h"

#include <fmt/format.h>

#include <cstring>

#include "trainer/compress/kinds.h"
#include "trainer/contract/error.h"

namespace coxswain::compress {

void refuse(const std::string& what) {
  throw Error(ExitCode::kPeerLost,
              fmt::format("[compress] {}: no process of this job sends that", what));
}

void encode_exact(const Encoding& to) {
  for (std::size_t i = 0; i < to.gradients.size(); ++i) {
    const float sum = to.gradients[i] + to.residual[i];
    std::memcpy(to.bytes.data() + i * sizeof(float), &sum, sizeof(float));
    to.left[i] = 0;
  }
}

void decode_exact(std::span<const std::byte> bytes, std::span<float> gradients) {
  if (!bytes.empty()) std::memcpy(gradients.data(), bytes.data(), bytes.size());
}

std::int64_t encoded_bytes(const Codec& codec, std::int64_t floats) {
  switch (codec.kind) {
    case Compression::kNone:
      return floats * static_cast<std::int64_t>(sizeof(float));
    case Compression::kFp16:
    case Compression::kBf16:
      return floats * static_cast<std::int64_t>(sizeof(std::uint16_t));
    case Compression::kTwoBit:
      return two_bit_bytes(floats);
    case Compression::kOneBit:
      return one_bit_bytes(floats);
    case Compression::kTopK:
      return top_k_bytes(floats, codec.ratio);
  }
  return 0;
}

void encode(const Codec& codec, std::span<const float> gradients, std::span<const float> residual,
            std::span<std::byte> bytes, std::span<float> left) {
  const bool fits = residual.size() == gradients.size() && left.size() == gradients.size() &&
                    std::ssize(bytes) == encoded_bytes(codec, std::ssize(gradients));
  if (!fits) throw Error(ExitCode::kInternal, "[compress] memory of another length");
  const Encoding to{gradients, residual, bytes, left};
  switch (codec.kind) {
    case Compression::kNone:
      return encode_exact(to);
    case Compression::kFp16:
      return encode_fp16(to);
    case Compression::kBf16:
      return encode_bf16(to);
    case Compression::kTwoBit:
      return encode_two_bit(to, codec.threshold);
    case Compression::kOneBit:
      return encode_one_bit(to);
    case Compression::kTopK:
      return encode_top_k(to);
  }
}

void decode(const Codec& codec, std::span<const std::byte> bytes, std::span<float> gradients) {
  if (std::ssize(bytes) != encoded_bytes(codec, std::ssize(gradients)))
    refuse(fmt::format("{} bytes of {} gradients as {}", bytes.size(), gradients.size(),
                       word(codec.kind)));
  switch (codec.kind) {
    case Compression::kNone:
      return decode_exact(bytes, gradients);
    case Compression::kFp16:
      return decode_fp16(bytes, gradients);
    case Compression::kBf16:
      return decode_bf16(bytes, gradients);
    case Compression::kTwoBit:
      return decode_two_bit(bytes, codec.threshold, gradients);
    case Compression::kOneBit:
      return decode_one_bit(bytes, gradients);
    case Compression::kTopK:
      return decode_top_k(bytes, gradients);
  }
}

}  // namespace coxswain::compress
