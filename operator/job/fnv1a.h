#pragma once

#include <cstdint>
#include <string_view>

namespace coxswain::job {

// FNV-1a, 32 bits: tells texts apart, guards nothing.
constexpr std::uint32_t fnv1a(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

}  // namespace coxswain::job
