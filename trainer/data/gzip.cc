#include "trainer/data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

namespace coxswain::data {

namespace {

constexpr int kGzipWindow = 15 + 16;  // the largest window; 16 asks for gzip's header and checksum
constexpr std::size_t kFirstBytes = std::size_t{1} << 16;
constexpr std::size_t kLargestPiece = std::numeric_limits<uInt>::max();

class InflateStream {
 public:
  InflateStream() {
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~InflateStream() { inflateEnd(&stream_); }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;
  z_stream* get() { return &stream_; }

 private:
  z_stream stream_{};
};

uInt piece(std::size_t size) { return static_cast<uInt>(std::min(size, kLargestPiece)); }

}  // namespace

bool is_gzip(std::span<const std::uint8_t> content) {
  return content.size() >= 2 && content[0] == 0x1f && content[1] == 0x8b;
}

Inflated inflate_at_most(std::span<const std::uint8_t> compressed, std::size_t limit) {
  InflateStream stream;
  z_stream* z = stream.get();
  Inflated result;
  std::size_t taken = 0;
  std::size_t made = 0;
  int code = Z_OK;
  while (code == Z_OK && made < limit) {
    if (made == result.bytes.size()) {
      result.bytes.resize(std::min(limit, std::max(kFirstBytes, 2 * made)));
    }
    z->next_in = const_cast<Bytef*>(compressed.data() + taken);  // zlib's missing const
    z->avail_in = piece(compressed.size() - taken);
    z->next_out = result.bytes.data() + made;
    z->avail_out = piece(result.bytes.size() - made);
    const uInt offered_in = z->avail_in;
    const uInt offered_out = z->avail_out;
    code = inflate(z, Z_NO_FLUSH);
    taken += offered_in - z->avail_in;
    made += offered_out - z->avail_out;
  }
  result.bytes.resize(made);
  if (code == Z_OK) {
    result.end = InflateEnd::kLimit;
  } else if (code == Z_BUF_ERROR) {  // no progress: all input is used, and output has room
    result.end = InflateEnd::kTruncated;
  } else if (code != Z_STREAM_END) {
    result.end = InflateEnd::kCorrupt;
    result.problem = z->msg != nullptr ? z->msg : "not a gzip stream";
  } else if (taken != compressed.size()) {
    result.end = InflateEnd::kCorrupt;
    result.problem = "bytes behind the end of the stream";
  }
  return result;
}

}  // namespace coxswain::data
