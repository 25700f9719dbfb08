#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace coxswain::data {

// How an inflation ended.
enum class InflateEnd {
  kComplete,   // at the end of the stream, checksum right, nothing behind it
  kLimit,      // at the limit; the stream goes on
  kTruncated,  // the compressed data ends early
  kCorrupt,    // what zlib refused, or bytes behind the stream
};

// Value. The bytes before that end.
struct Inflated {
  std::vector<std::uint8_t> bytes;
  InflateEnd end = InflateEnd::kComplete;
  std::string problem;  // kCorrupt: zlib's words
};

bool is_gzip(std::span<const std::uint8_t> content);

// Inflates one gzip stream, `limit` bytes of it at most. Memory follows what really comes out, so
// neither a small file nor a large limit alone can ask for much.
Inflated inflate_at_most(std::span<const std::uint8_t> compressed, std::size_t limit);

}  // namespace coxswain::data
