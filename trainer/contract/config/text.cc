#include "trainer/contract/config/text.h"

#include "trainer/contract/printable.h"

namespace coxswain::contract {

namespace {

constexpr std::size_t kMaxQuotedCharacters = 80;

}  // namespace

std::string quote(std::string_view text) {
  return '"' + printable(text, kMaxQuotedCharacters, "\"\\") + '"';
}

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t place = 0;
  while (place < text.size()) {
    const std::size_t length = utf8_length(text.substr(place));
    if (length == 0) return place;
    place += length;
  }
  return std::string_view::npos;
}

}  // namespace coxswain::contract
