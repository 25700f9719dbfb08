#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace coxswain::checkpoint {

[[noreturn]] void refuse(std::string_view where, const std::string& reason);

// A name or text from a file, in quotes, fit for a message.
std::string in_quotes(std::string_view text);

// Outside JSON: an object, at most `max_depth` deep, no key twice in one object.
nlohmann::json parse_json_object(std::string_view text, int max_depth, std::string_view where);

// Reads the members of an object by name and type, and refuses what is missing, out of range or
// unknown.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string where);

  std::int64_t integer(const char* key, std::int64_t low = 0,
                       std::int64_t high = std::numeric_limits<std::int64_t>::max());
  double number(const char* key,  // null is NaN, where there is no limit
                double low = -std::numeric_limits<double>::max(),
                double high = std::numeric_limits<double>::max());
  bool boolean(const char* key);
  std::string text(const char* key);
  std::uint32_t crc32(const char* key);  // eight hexadecimal digits
  const nlohmann::json& array(const char* key);
  const nlohmann::json& object(const char* key);
  void finish() const;  // every member was read

 private:
  const nlohmann::json& member(const char* key);

  const nlohmann::json& object_;
  std::string where_;
  std::vector<std::string_view> read_;
};

std::string to_hex(std::uint32_t crc32);
std::uint32_t parse_hex(std::string_view text, std::string_view where);

}  // namespace coxswain::checkpoint
