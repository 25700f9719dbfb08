#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/compress/codec.h"
#include "trainer/ps/shard.h"

namespace coxswain::ps {

// Value. How one part of a block is written in a push. Plain: its floats. Encoded: its gradients as
// the codec says, and what is none (statistics before them, the control segment behind) as it is.
// The length of a push says which it is: no codec takes as many bytes as floats do.
class PushForm {
 public:
  PushForm(const tensor::ParameterLayout& layout, const compress::Codec& codec);

  bool encodes() const { return codec_.kind != Compression::kNone; }
  std::int64_t bytes_of(const Piece& block) const;  // encoded
  bool is_encoded(const Piece& block, std::int64_t bytes) const;
  // Of what a push that is encoded is; nullptr: it is plain, or no push of this server.
  const Piece* encoded_block(const Shard& shard, std::int64_t offset, std::int64_t bytes) const;

  // See compress::encode; all of these are of the whole block.
  void encode(const Piece& block, std::span<const float> floats, std::span<const float> residual,
              std::span<std::byte> bytes, std::span<float> left) const;
  // Throws Error(71) for bytes that encode() does not write.
  void decode(const Piece& block, std::span<const std::byte> bytes, std::span<float> floats) const;

 private:
  // Of a block, in floats.
  struct Parts {
    std::size_t head = 0;
    std::size_t gradients = 0;
    std::size_t tail = 0;
    std::size_t exact_bytes() const { return (head + tail) * sizeof(float); }
  };
  Parts parts_of(const Piece& block) const;
  // The codec's own.
  template <typename Byte>
  static std::span<Byte> between(std::span<Byte> bytes, const Parts& parts) {
    return bytes.subspan(parts.head * sizeof(float), bytes.size() - parts.exact_bytes());
  }

  compress::Codec codec_;
  std::int64_t first_gradient_;
  std::int64_t end_of_gradients_;
};

}  // namespace coxswain::ps
