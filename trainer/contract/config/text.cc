#include "trainer/contract/config/text.h"

#include <fmt/format.h>

#include <cstdint>

namespace coxswain::contract {

namespace {

constexpr std::size_t kMaxQuotedCharacters = 80;

// Bytes of the well-formed UTF-8 sequence at the front, 0 when there is none (RFC 3629, section 4).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  const auto continues = [&byte](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const std::uint8_t low = first == 0xE0 ? 0xA0 : 0x80;   // no overlong forms
    const std::uint8_t high = first == 0xED ? 0x9F : 0xBF;  // no surrogates
    return byte(1) >= low && byte(1) <= high && continues(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const std::uint8_t low = first == 0xF0 ? 0x90 : 0x80;
    const std::uint8_t high = first == 0xF4 ? 0x8F : 0xBF;
    return byte(1) >= low && byte(1) <= high && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string quote(std::string_view text) {
  std::string result = "\"";
  std::size_t characters = 0;
  while (!text.empty()) {
    if (++characters > kMaxQuotedCharacters) return result + "...\"";
    const std::size_t length = utf8_length(text);
    const auto byte = static_cast<std::uint8_t>(text.front());
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      result += byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : fmt::format("\\x{:02x}", byte);
      text.remove_prefix(1);
      continue;
    }
    if (byte == '"' || byte == '\\') result += '\\';
    result += text.substr(0, length);
    text.remove_prefix(length);
  }
  return result + '"';
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
