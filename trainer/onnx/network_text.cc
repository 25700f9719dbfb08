#include <fmt/format.h>

#include <charconv>

#include "trainer/onnx/format.h"
#include "trainer/onnx/network.h"

namespace coxswain::onnx {

namespace {

constexpr std::string_view kPrefix = "onnx:";

}  // namespace

std::string to_text(const Model& model) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  constexpr std::size_t kMostBytes = std::size_t{4} << 20;
  const std::string bytes = encode(without_weights(model));
  if (bytes.size() > kMostBytes)
    refuse(model, fmt::format("{} bytes long without its weights, the limit is {}", bytes.size(),
                              kMostBytes));
  std::string text(kPrefix);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool is_model_text(const std::string& text) { return text.starts_with(kPrefix); }

Model from_text(const std::string& text, const std::string& where) {
  const std::string_view digits = std::string_view(text).substr(kPrefix.size());
  std::vector<std::uint8_t> bytes(digits.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* first = digits.data() + 2 * i;
    const auto [end, error] = std::from_chars(first, first + 2, bytes[i], 16);
    if (error != std::errc() || end != first + 2)
      refuse({.where = where}, "its network is no hexadecimal digits");
  }
  return decode_model(std::as_bytes(std::span(bytes)), where);
}

}  // namespace coxswain::onnx
