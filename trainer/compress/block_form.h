#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/compress/codec.h"
#include "trainer/tensor/parameter_layout.h"

namespace coxswain::compress {

// Value. How a block of the flat buffer is written on its way: its gradients as the codec says, and
// what is none (statistics before them, the control segment behind) as it is. The length of a block
// says how many bytes that takes; no codec takes as many as floats do. A block whose turn it is not
// says of its gradients no more than whether they are finite. Offsets and lengths count floats.
class BlockForm {
 public:
  enum class Turn { kSends, kRests };
  BlockForm(const tensor::ParameterLayout& layout, const Codec& codec, Turn turn = Turn::kSends);

  std::int64_t bytes_of(std::int64_t offset, std::int64_t length) const;

  // See compress::encode; all of these are of the whole block.
  void encode(std::int64_t offset, std::span<const float> floats, std::span<const float> residual,
              std::span<std::byte> bytes, std::span<float> left) const;
  // Throws Error(71) for bytes that encode() does not write.
  void decode(std::int64_t offset, std::span<const std::byte> bytes, std::span<float> floats) const;

 private:
  // Of a block, in floats.
  struct Parts {
    std::size_t head = 0;
    std::size_t gradients = 0;
    std::size_t tail = 0;
    std::size_t exact_bytes() const { return (head + tail) * sizeof(float); }
  };
  Parts parts_of(std::int64_t offset, std::int64_t length) const;
  // The codec's own.
  template <typename Byte>
  static std::span<Byte> between(std::span<Byte> bytes, const Parts& parts) {
    return bytes.subspan(parts.head * sizeof(float), bytes.size() - parts.exact_bytes());
  }

  Codec codec_;
  bool rests_;
  std::int64_t first_gradient_;
  std::int64_t end_of_gradients_;
};

}  // namespace coxswain::compress
