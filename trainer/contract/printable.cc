#include "trainer/contract/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace coxswain {

namespace {

bool continues_character(char c) { return (static_cast<std::uint8_t>(c) & 0xC0) == 0x80; }

// Whether a terminal may do something else than show this character, given as well-formed UTF-8.
bool is_obeyed(std::string_view character) {
  const auto byte = [character](std::size_t i) { return static_cast<std::uint8_t>(character[i]); };
  const std::size_t length = character.size();
  if (length == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  // C1: U+009B is "ESC [" in one character.
  if (length == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (length != 3 || byte(0) != 0xE2) return false;
  // U+2028 to U+202E, U+2066 to U+2069: line and paragraph separators, changes of direction.
  return (byte(1) == 0x80 && byte(2) >= 0xA8 && byte(2) <= 0xAE) ||
         (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9);
}

std::string escaped(std::string_view bytes) {
  if (bytes == "\n") return "\\n";
  if (bytes == "\t") return "\\t";
  std::string result;
  for (const char c : bytes) result += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(c));
  return result;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  const auto continues = [text](std::size_t i) {
    return i < text.size() && continues_character(text[i]);
  };
  if (text.empty()) return 0;
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

std::string printable(std::string_view text, std::size_t limit, std::string_view also) {
  std::string result;
  for (std::size_t characters = 0; !text.empty(); ++characters) {
    if (characters == limit) return result + "...";
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    text.remove_prefix(character.size());
    if (length == 0 || is_obeyed(character)) {
      result += escaped(character);
      continue;
    }
    if (also.find(character) != std::string_view::npos) result += '\\';
    result += character;
  }
  return result;
}

std::string well_formed(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    result += length == 0 ? escaped(character) : std::string(character);
    text.remove_prefix(character.size());
  }
  return result;
}

std::string shortened(std::string_view text, std::size_t limit, std::string_view mark) {
  if (text.size() <= limit) return std::string(text);
  std::size_t end = limit > mark.size() ? limit - mark.size() : 0;
  while (end > 0 && continues_character(text[end])) --end;
  return std::string(text.substr(0, end)).append(mark);
}

}  // namespace coxswain
