#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "operator/job/words.h"

// Pieces of an OpenAPI v3 schema, as a CRD takes them. Every field that is ours says what it means,
// so that `kubectl explain` teaches.
namespace coxswain::crd {

using Json = nlohmann::ordered_json;

inline constexpr std::int64_t kMaxInt32 = 2147483647;
inline constexpr const char* kIntOrString = "x-kubernetes-int-or-string";
inline constexpr const char* kKeepUnknown = "x-kubernetes-preserve-unknown-fields";

Json text(const std::string& meaning);
Json time(const std::string& meaning);
Json boolean(const std::string& meaning);
Json integer(const std::string& meaning, std::int64_t min, std::int64_t max = kMaxInt32);
Json big_integer(const std::string& meaning);  // 64 bits, of the status
Json number(const std::string& meaning);
Json list(const std::string& meaning, Json items, int max_items);

// An object with these fields, in this order.
using Fields = std::initializer_list<std::pair<std::string, Json>>;
Json object(const std::string& meaning, Fields fields);

// Something that is described elsewhere, with what it means here.
Json described(const std::string& meaning, Json schema);

Json with(Json schema, const char* key, Json value);
Json with_default(Json schema, Json value);  // told in the description too
Json requiring(Json schema, std::initializer_list<const char*> fields);

template <class E, std::size_t N>
Json words(const std::string& meaning, const Words<E, N>& table) {
  Json schema = text(meaning);
  for (const auto& entry : table) schema["enum"].push_back(entry.text);
  return schema;
}

// A CEL rule with what to write instead.
struct Rule {
  std::string rule;
  std::string message;
  std::string message_expression = {};  // CEL; `message` stands where it fails
  std::string field_path = {};          // ".replicaSpecs.Server"
};
Json with_rules(Json schema, std::initializer_list<Rule> rules);

}  // namespace coxswain::crd
