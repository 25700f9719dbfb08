#pragma once

#include <cstdint>
#include <vector>

#include "trainer/tensor/parameter_layout.h"

// PURE: which server holds which part of the flat buffer.
namespace coxswain::ps {

// Value. A range of the flat buffer, and where it lies in what its server holds. In floats.
struct Piece {
  int server = 0;
  std::int64_t offset = 0;  // in the flat buffer
  std::int64_t length = 0;
  std::int64_t local = 0;  // in the server's own, dense buffer
  bool operator==(const Piece&) const = default;
};

// Value. The flat buffer cut into blocks of one length, which are dealt to the servers in turn: as
// gradients become final from the front, all servers have work at any time. Blocks are short enough
// for the fullest server to hold at most 3 % more than the mean, and never cut the control segment.
class ShardMap {
 public:
  ShardMap(const tensor::ParameterLayout& layout, int servers);

  int servers() const { return servers_; }
  std::int64_t block() const { return block_; }
  std::int64_t load(int server) const;  // floats that it holds

  // The pieces of [offset, offset + length), in order; neighbours of one server are several.
  std::vector<Piece> cut(std::int64_t offset, std::int64_t length) const;
  // All pieces of one server.
  std::vector<Piece> of_server(int server) const;
  int control_server() const { return server_of(size_ - 1); }

 private:
  int server_of(std::int64_t offset) const { return static_cast<int>(offset / block_ % servers_); }

  std::int64_t size_;
  int servers_;
  std::int64_t block_;
};

}  // namespace coxswain::ps
