#include "trainer/ps/shards.h"

#include <algorithm>

namespace coxswain::ps {

namespace {

// 256 KiB: longer blocks make no message cheaper.
constexpr std::int64_t kLongest = std::int64_t{64} << 10;
// Blocks of a server at least: one more or less is then 3 % of what it holds.
constexpr std::int64_t kFewest = 34;
// The control segment is one of these, at the end of the buffer, whose length is a multiple.
constexpr std::int64_t kStep = tensor::kControlFloats;

}  // namespace

ShardMap::ShardMap(const tensor::ParameterLayout& layout, int servers)
    : size_(layout.size()),
      servers_(servers),
      block_(std::clamp(size_ / (servers * kFewest) / kStep * kStep, kStep, kLongest)) {}

std::int64_t ShardMap::load(int server) const {
  const std::int64_t round = block_ * servers_;
  const std::int64_t rest = size_ % round - server * block_;
  return size_ / round * block_ + std::clamp<std::int64_t>(rest, 0, block_);
}

std::vector<Piece> ShardMap::cut(std::int64_t offset, std::int64_t length) const {
  std::vector<Piece> pieces;
  for (std::int64_t at = offset; at < offset + length;) {
    const std::int64_t end = std::min(offset + length, (at / block_ + 1) * block_);
    const std::int64_t local = at / block_ / servers_ * block_ + at % block_;
    pieces.push_back({server_of(at), at, end - at, local});
    at = end;
  }
  return pieces;
}

std::vector<Piece> ShardMap::of_server(int server) const {
  std::vector<Piece> pieces = cut(0, size_);
  std::erase_if(pieces, [server](const Piece& piece) { return piece.server != server; });
  return pieces;
}

}  // namespace coxswain::ps
