#include "trainer/checkpoint/format_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"

namespace coxswain::checkpoint {

using nlohmann::json;

void refuse(std::string_view where, const std::string& reason) {
  throw Error(ExitCode::kBadInput, fmt::format("[checkpoint] {}: {}", where, reason));
}

namespace {

// Reads JSON without keeping it: what is too deep or there twice is refused before anything is
// built. (json::parse with a callback looks through all members of an object after each of them:
// 20 s for 100,000 tensors.)
class Checker : public json::json_sax_t {
 public:
  Checker(int max_depth, std::string_view where) : max_depth_(max_depth), where_(where) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    if (!keys_.back().insert(key).second) refuse(where_, in_quotes(key) + " is there twice");
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  bool open() {
    keys_.emplace_back();
    if (static_cast<int>(keys_.size()) > max_depth_) {
      refuse(where_, fmt::format("nested deeper than {}", max_depth_));
    }
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  int max_depth_;
  std::string_view where_;
  std::vector<std::unordered_set<std::string>> keys_;  // of the open objects and lists
};

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMostCharacters = 80;
  return '"' + printable(text, kMostCharacters, "\"\\") + '"';
}

json parse_json_object(std::string_view text, int max_depth, std::string_view where) {
  Checker checker(max_depth, where);
  json parsed;
  try {
    if (!json::sax_parse(text, &checker)) refuse(where, "not valid JSON");
    parsed = json::parse(text);
  } catch (const json::exception&) {  // a number beyond all
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

double JsonFields::number(const char* key, double low, double high) {
  const json& value = member(key);
  const bool bounded =
      low > std::numeric_limits<double>::lowest() || high < std::numeric_limits<double>::max();
  if (value.is_null() && !bounded) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) refuse(where_, fmt::format("\"{}\" is not a number", key));
  const auto number = value.get<double>();
  if (!(number >= low && number <= high)) {
    refuse(where_, fmt::format("\"{}\" is out of range: {} to {}", key, low, high));
  }
  return number;
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
      refuse(where_, "unknown member " + in_quotes(key));
    }
  }
}

std::string to_hex(std::uint32_t crc32) { return fmt::format("{:08x}", crc32); }

std::uint32_t parse_hex(std::string_view text, std::string_view where) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 8 || error != std::errc() || end != text.data() + text.size()) {
    refuse(where, in_quotes(text) + " is not a checksum of eight hexadecimal digits");
  }
  return value;
}

}  // namespace coxswain::checkpoint
