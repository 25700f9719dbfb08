#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace coxswain::contract {

// JSON text of at most `max_bytes` as an object; nothing when it is too long, no JSON, or no
// object.
inline std::optional<nlohmann::json> parse_object(std::string_view text, std::size_t max_bytes) {
  if (text.size() > max_bytes) return std::nullopt;
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

// Of JSON of which nothing is sure. The member, where `object` is one and has it, and it is not
// null; else nullptr.
inline const nlohmann::json* find(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// The same; null where there is none.
inline const nlohmann::json& member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNothing;
  const nlohmann::json* found = find(object, key);
  return found ? *found : kNothing;
}

// What is missing or of another type reads as empty.
inline std::string text_at(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}
inline const nlohmann::json& list_at(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kEmpty = nlohmann::json::array();
  const nlohmann::json& value = member(object, key);
  return value.is_array() ? value : kEmpty;
}

// Reads members of an object, strictly: a member that is missing leaves its value alone, one of a
// wrong type or out of range spoils the whole.
class JsonFields {
 public:
  explicit JsonFields(const nlohmann::json& object) : object_(object), ok_(object.is_object()) {}

  bool ok() const { return ok_; }
  void spoil() { ok_ = false; }

  const nlohmann::json* member(const char* name) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

  void read(const char* name, std::string& value) {
    const auto* json = member(name);
    if (json == nullptr) return;
    if (!json->is_string()) return spoil();
    value = json->get<std::string>();
  }

  void read(const char* name, std::int64_t& value) {
    const auto* json = member(name);
    if (json == nullptr) return;
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    const bool fits =
        json->is_number_unsigned() ? json->get<std::uint64_t>() <= kMax : json->is_number_integer();
    if (!fits) return spoil();
    value = json->get<std::int64_t>();
  }

  void read(const char* name, int& value) {
    std::int64_t wide = value;
    read(name, wide);
    if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
      return spoil();
    }
    value = static_cast<int>(wide);
  }

  void read(const char* name, double& value) {
    const auto* json = member(name);
    if (json == nullptr) return;
    if (!json->is_number() || !std::isfinite(json->get<double>())) return spoil();
    value = json->get<double>();
  }

  template <class Value>
  void read(const char* name, std::optional<Value>& value) {
    if (member(name) == nullptr) return;
    Value inner{};
    read(name, inner);
    if (ok_) value = inner;
  }

 private:
  const nlohmann::json& object_;
  bool ok_;
};

// Compact text; bytes that are not UTF-8 become U+FFFD.
inline std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace coxswain::contract
