#pragma once

#include <cstdint>

namespace coxswain::tensor {

// Value. FNV-1a, 64 bits, a word at a time: tells contents apart, guards nothing.
class Fnv1a {
 public:
  void add(std::uint32_t word) { hash_ = (hash_ ^ word) * 1099511628211ULL; }
  std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 14695981039346656037ULL;
};

}  // namespace coxswain::tensor
