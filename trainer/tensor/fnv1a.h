#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace coxswain::tensor {

// Value. FNV-1a, 64 bits, a word at a time: tells contents apart, guards nothing.
class Fnv1a {
 public:
  void add(std::uint32_t word) { hash_ = (hash_ ^ word) * 1099511628211ULL; }
  void add_long(std::uint64_t words) {
    add(static_cast<std::uint32_t>(words));
    add(static_cast<std::uint32_t>(words >> 32));
  }
  // Four bytes a word, zeros behind the last.
  void add_bytes(std::span<const std::uint8_t> bytes) {
    for (; bytes.size() >= sizeof(std::uint32_t); bytes = bytes.subspan(sizeof(std::uint32_t)))
      add_first(bytes);
    if (!bytes.empty()) add_first(bytes);
  }
  std::uint64_t hash() const { return hash_; }

 private:
  void add_first(std::span<const std::uint8_t> bytes) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
    add(word);
  }

  std::uint64_t hash_ = 14695981039346656037ULL;
};

inline std::uint64_t fnv1a(std::string_view text) {
  Fnv1a hash;
  for (const char c : text) hash.add(static_cast<unsigned char>(c));
  return hash.hash();
}

}  // namespace coxswain::tensor
