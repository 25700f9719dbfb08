#include "operator/job/validation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "operator/job/json_fields.h"
#include "trainer/contract/config/nearest_key.h"
#include "trainer/contract/config/text.h"

// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
namespace coxswain::job {

namespace {

constexpr std::size_t kMostKnown = 12;     // fields that a hint lists
constexpr std::size_t kMostKeyBytes = 80;  // of a key in a path

bool is_set(const Json& schema, const char* flag) {
  return schema.contains(flag) && schema.at(flag) == true;
}

class SchemaCheck {
 public:
  explicit SchemaCheck(std::vector<Problem>& problems) : problems_(problems) {}

  void check(const Json& value, const Json& schema, const std::string& path) {
    if (is_set(schema, "x-kubernetes-int-or-string")) {
      if (!value.is_number_integer() && !value.is_string())
        return refuse(path, "must be an integer or a text, got " + describe(value));
    } else if (schema.contains("type")) {
      if (const char* wanted = wanted_of(value, schema.at("type").get<std::string>()))
        return refuse(path, fmt::format("must be {}, got {}", wanted, describe(value)));
    }
    check_word(value, schema, path);
    if (value.is_number()) check_limits(value, schema, path);
    if (value.is_string()) check_length(value.get_ref<const std::string&>(), schema, path);
    if (value.is_array()) check_list(value, schema, path);
    if (value.is_object()) check_object(value, schema, path);
  }

 private:
  void refuse(const std::string& path, std::string message) {
    problems_.push_back({path, 0, std::move(message)});
  }

  // What the schema's type is called; null: the value is of it.
  static const char* wanted_of(const Json& value, const std::string& type) {
    if (type == "object") return value.is_object() ? nullptr : "an object";
    if (type == "array") return value.is_array() ? nullptr : "a list";
    if (type == "string") return value.is_string() ? nullptr : "a text";
    if (type == "boolean") return value.is_boolean() ? nullptr : "true or false";
    if (type == "integer") return value.is_number_integer() ? nullptr : "an integer";
    return value.is_number() ? nullptr : "a number";
  }

  void check_word(const Json& value, const Json& schema, const std::string& path) {
    if (!schema.contains("enum")) return;
    const Json& words = schema.at("enum");
    if (std::find(words.begin(), words.end(), value) != words.end()) return;
    std::vector<std::string> known;
    for (const Json& word : words)
      known.push_back(word.is_string() ? word.get<std::string>() : word.dump());
    refuse(path, fmt::format("must be one of {}; got {}", fmt::join(known, ", "), describe(value)));
  }

  void check_limits(const Json& value, const Json& schema, const std::string& path) {
    double least = schema.value("minimum", std::numeric_limits<double>::lowest());
    double most = schema.value("maximum", std::numeric_limits<double>::max());
    if (schema.value("format", "") == "int32") {
      least = std::max<double>(least, std::numeric_limits<std::int32_t>::min());
      most = std::min<double>(most, std::numeric_limits<std::int32_t>::max());
    }
    const auto number = value.get<double>();
    if (number < least)
      refuse(path, fmt::format("must be at least {}, got {}", least, value.dump()));
    if (number > most) refuse(path, fmt::format("must be at most {}, got {}", most, value.dump()));
  }

  void check_length(const std::string& text, const Json& schema, const std::string& path) {
    if (!schema.contains("maxLength")) return;
    const auto characters = static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    const auto most = schema.at("maxLength").get<std::size_t>();
    if (characters > most)
      refuse(path, fmt::format("at most {} characters, got {}", most, characters));
  }

  void check_list(const Json& list, const Json& schema, const std::string& path) {
    if (schema.contains("maxItems") && list.size() > schema.at("maxItems").get<std::size_t>())
      refuse(path,
             fmt::format("at most {} entries, got {}", schema.at("maxItems").dump(), list.size()));
    for (std::size_t i = 0; i < list.size() && schema.contains("items"); ++i)
      check(list[i], schema.at("items"), fmt::format("{}[{}]", path, i));
    check_twins(list, schema, path);
  }

  // Of entries that are told apart by some of their fields, or by themselves.
  void check_twins(const Json& list, const Json& schema, const std::string& path) {
    const std::string kind = schema.value("x-kubernetes-list-type", "atomic");
    if (kind == "atomic") return;
    std::set<Json> seen;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Json identity = kind == "set" ? list[i] : identity_of(list[i], schema);
      if (!seen.insert(identity).second)
        refuse(fmt::format("{}[{}]", path, i), "a second one of " + identity.dump().substr(0, 200));
    }
  }

  static Json identity_of(const Json& entry, const Json& schema) {
    Json identity = Json::object();
    for (const Json& key : schema.at("x-kubernetes-list-map-keys")) {
      const auto& name = key.get_ref<const std::string&>();
      const Json& field = schema.at("items").at("properties").value(name, Json::object());
      identity[name] = entry.is_object() && entry.contains(name) ? entry.at(name)
                                                                 : field.value("default", Json());
    }
    return identity;
  }

  void check_object(const Json& object, const Json& schema, const std::string& path) {
    const auto path_of = [&](const std::string& key) {
      return (path.empty() ? "" : path + ".") + key.substr(0, kMostKeyBytes);
    };
    const auto has = [&](const std::string& key) {
      return object.contains(key) && !object.at(key).is_null();
    };
    for (const Json& key : schema.value("required", Json::array()))
      if (!has(key.get<std::string>())) refuse(path_of(key.get<std::string>()), "required");
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [key, value] : object.items()) {
      if (properties.contains(key)) {
        if (!value.is_null()) check(value, properties.at(key), path_of(key));
      } else if (schema.contains("additionalProperties")) {
        check(value, schema.at("additionalProperties"), path_of(key));
      } else if (!is_set(schema, "x-kubernetes-preserve-unknown-fields")) {
        refuse(path_of(key), unknown_field(key, properties));
      }
    }
  }

  static std::string unknown_field(const std::string& key, const Json& properties) {
    std::vector<std::string_view> known;
    for (const auto& [name, schema] : properties.items()) known.push_back(name);
    if (const auto near = contract::nearest_key(key, known))
      return fmt::format("unknown field; did you mean \"{}\"?", *near);
    if (known.size() > kMostKnown) return "unknown field; remove it";
    return fmt::format("unknown field; known: {}", fmt::join(known, ", "));
  }

  std::vector<Problem>& problems_;
};

}  // namespace

void check_schema(const Json& value, const Json& schema, const std::string& path,
                  std::vector<Problem>& problems) {
  SchemaCheck(problems).check(value, schema, path);
}

}  // namespace coxswain::job
