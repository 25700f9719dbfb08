#pragma once

#include <cstdint>
#include <string_view>

namespace coxswain::tensor {

// Value. FNV-1a, 64 bits, a word at a time: tells contents apart, guards nothing.
class Fnv1a {
 public:
  void add(std::uint32_t word) { hash_ = (hash_ ^ word) * 1099511628211ULL; }
  std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 14695981039346656037ULL;
};

inline std::uint64_t fnv1a(std::string_view text) {
  Fnv1a hash;
  for (const char c : text) hash.add(static_cast<unsigned char>(c));
  return hash.hash();
}

}  // namespace coxswain::tensor
