#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace coxswain::comm {

// How a rank writes blocks of the flat buffer on their way to others: in fewer bytes, as many on
// all ranks, which may leave something out. A block is kOwnerBlock floats from a multiple of them,
// or what is left at the end. Called on the communicator's thread, from the start of a sum until
// wait() has returned.
class BlockCodec {
 public:
  virtual ~BlockCodec() = default;

  // A block's memory in its written form, which lies where it is from sum to sum.
  virtual std::span<std::byte> bytes_of(std::int64_t offset, std::int64_t length) = 0;
  // Writes it into bytes_of(), once in each sum: a rank's part of another's block, or the sum of
  // its own.
  virtual void encode(std::int64_t offset, std::span<const float> block) = 0;
  // The floats that any rank reads in such bytes. Throws Error for what encode() does not write.
  virtual void decode(std::int64_t offset, std::span<const std::byte> bytes,
                      std::span<float> block) = 0;
};

}  // namespace coxswain::comm
