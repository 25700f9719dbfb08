#include "operator/job/json_fields.h"

#include <fmt/format.h>

#include <cmath>

#include "trainer/contract/config/nearest_key.h"
#include "trainer/contract/config/text.h"

namespace coxswain::job {

namespace {

const Json& empty_object() {
  static const Json object = Json::object();
  return object;
}

}  // namespace

std::string describe(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return "the text " + contract::quote(value.get_ref<const std::string&>());
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    return "a number that is not finite";
  return value.dump();
}

JsonFields::JsonFields(const Json& value, std::string path, std::vector<Problem>& problems)
    : object_(value.is_object() ? value : empty_object()),
      path_(std::move(path)),
      problems_(problems) {
  if (!value.is_object()) refuse(path_, "must be an object, got " + describe(value));
}

std::string JsonFields::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void JsonFields::refuse(std::string path, std::string message) {
  problems_.push_back({std::move(path), 0, std::move(message)});
}

const Json* JsonFields::find(std::string_view key) {
  known_.emplace(key);
  const auto found = object_.find(std::string(key));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json* JsonFields::require(std::string_view key) {
  const Json* value = find(key);
  if (!value) refuse(path_of(key), "required");
  return value;
}

std::optional<std::int64_t> JsonFields::integer(const Json& value, const std::string& path,
                                                Range range) {
  if (!value.is_number_integer()) {
    refuse(path, "must be an integer, got " + describe(value));
    return std::nullopt;
  }
  const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  const std::int64_t number = huge ? INT64_MAX : value.get<std::int64_t>();
  if (number < range.min) {
    refuse(path, fmt::format("must be at least {}, got {}", range.min, number));
    return std::nullopt;
  }
  if (number > range.max) {
    refuse(path, fmt::format("must be at most {}, got {}", range.max, value.dump()));
    return std::nullopt;
  }
  return number;
}

bool JsonFields::take(const Json& value, const std::string& path, const About& about,
                      int& target) {
  const bool is_word = value.is_string() && !about.zero_word.empty();
  if (is_word && value != about.zero_word)
    refuse(path, fmt::format("must be an integer or {}, got {}", about.zero_word, describe(value)));
  if (is_word && value == about.zero_word) target = 0;
  if (is_word) return value == about.zero_word;
  const auto number = integer(value, path, about.range);
  if (number) target = static_cast<int>(*number);
  return number.has_value();
}

bool JsonFields::take(const Json& value, const std::string& path, const About& about,
                      Seconds& target) {
  const auto number = integer(value, path, about.range);
  if (number) target = Seconds(*number);
  return number.has_value();
}

bool JsonFields::take(const Json& value, const std::string& path, const About&, bool& target) {
  if (value.is_boolean()) target = value.get<bool>();
  if (!value.is_boolean()) refuse(path, "must be true or false, got " + describe(value));
  return value.is_boolean();
}

bool JsonFields::take(const Json& value, const std::string& path, const About&,
                      std::string& target) {
  if (value.is_string()) target = value.get<std::string>();
  if (!value.is_string()) refuse(path, "must be a text, got " + describe(value));
  return value.is_string();
}

bool JsonFields::take(const Json& value, const std::string& path, const About&, Json& target) {
  if (value.is_object()) target = value;
  if (!value.is_object()) refuse(path, "must be an object, got " + describe(value));
  return value.is_object();
}

std::vector<JsonFields::Element> JsonFields::elements(std::string_view key) {
  const Json* value = find(key);
  return value ? elements_of(*value, path_of(key)) : std::vector<Element>{};
}

std::vector<JsonFields::Element> JsonFields::elements_of(const Json& value,
                                                         const std::string& path) {
  std::vector<Element> result;
  if (!value.is_array()) refuse(path, "must be a list, got " + describe(value));
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i)
      result.push_back({value[i], fmt::format("{}[{}]", path, i)});
  return result;
}

void JsonFields::refuse_unknown() {
  for (const auto& [key, value] : object_.items()) {
    if (known_.contains(key)) continue;
    const std::vector<std::string_view> known(known_.begin(), known_.end());
    const auto near = contract::nearest_key(key, known);
    const std::string hint = near ? fmt::format("did you mean \"{}\"?", *near)
                                  : fmt::format("known: {}", fmt::join(known, ", "));
    refuse(path_of(key.substr(0, 80)), "unknown field; " + hint);
  }
}

}  // namespace coxswain::job
