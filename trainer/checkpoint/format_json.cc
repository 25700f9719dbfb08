#include "trainer/checkpoint/format_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "trainer/contract/error.h"

namespace coxswain::checkpoint {

using nlohmann::json;

void refuse(std::string_view where, const std::string& reason) {
  throw Error(ExitCode::kBadInput, fmt::format("[checkpoint] {}: {}", where, reason));
}

json parse_json_object(std::string_view text, int max_depth, std::string_view where) {
  std::vector<std::set<std::string>> keys;  // of the open objects, by depth
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > max_depth) refuse(where, fmt::format("nested deeper than {}", max_depth));
    const auto level = static_cast<std::size_t>(depth);
    if (event == json::parse_event_t::object_start) {
      keys.resize(level + 2);
      keys[level + 1].clear();
    } else if (event == json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys[level].insert(key).second) refuse(where, fmt::format("\"{}\" is there twice", key));
    }
    return true;
  };
  json parsed;
  try {
    parsed = json::parse(text, check);
  } catch (const json::exception&) {
    refuse(where, "not valid JSON");
  }
  if (!parsed.is_object()) refuse(where, "not a JSON object");
  return parsed;
}

JsonFields::JsonFields(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object()) refuse(where_, "not an object");
}

const json& JsonFields::member(const char* key) {
  const auto found = object_.find(key);
  if (found == object_.end()) refuse(where_, fmt::format("\"{}\" is missing", key));
  read_.emplace_back(key);
  return *found;
}

std::int64_t JsonFields::integer(const char* key, std::int64_t low, std::int64_t high) {
  const json& value = member(key);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<std::uint64_t>() <=
                         static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  const std::int64_t number = fits ? value.get<std::int64_t>() : 0;
  if (!fits || number < low || number > high) {
    refuse(where_, fmt::format("\"{}\" is out of range: expected an integer from {} to {}", key,
                               low, high));
  }
  return number;
}

double JsonFields::number(const char* key) {
  const json& value = member(key);
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) refuse(where_, fmt::format("\"{}\" is not a number", key));
  return value.get<double>();
}

bool JsonFields::boolean(const char* key) {
  const json& value = member(key);
  if (!value.is_boolean()) refuse(where_, fmt::format("\"{}\" is not true or false", key));
  return value.get<bool>();
}

std::string JsonFields::text(const char* key) {
  const json& value = member(key);
  if (!value.is_string()) refuse(where_, fmt::format("\"{}\" is not a string", key));
  return value.get<std::string>();
}

std::uint32_t JsonFields::crc32(const char* key) { return parse_hex(text(key), where_); }

const json& JsonFields::array(const char* key) {
  const json& value = member(key);
  if (!value.is_array()) refuse(where_, fmt::format("\"{}\" is not a list", key));
  return value;
}

const json& JsonFields::object(const char* key) {
  const json& value = member(key);
  if (!value.is_object()) refuse(where_, fmt::format("\"{}\" is not an object", key));
  return value;
}

void JsonFields::finish() const {
  for (const auto& [key, value] : object_.items()) {
    if (std::ranges::find(read_, key) == read_.end()) {
      refuse(where_, fmt::format("unknown member \"{}\"", key));
    }
  }
}

std::string to_hex(std::uint32_t crc32) { return fmt::format("{:08x}", crc32); }

std::uint32_t parse_hex(std::string_view text, std::string_view where) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 8 || error != std::errc() || end != text.data() + text.size()) {
    refuse(where, fmt::format("\"{}\" is not a checksum of eight hexadecimal digits", text));
  }
  return value;
}

}  // namespace coxswain::checkpoint
