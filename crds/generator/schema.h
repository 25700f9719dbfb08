#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

// Pieces of an OpenAPI v3 schema, as a CRD takes them. Every field that is ours says what it means,
// so that `kubectl explain` teaches.
namespace coxswain::crd {

using Json = nlohmann::ordered_json;

inline constexpr const char* kIntOrString = "x-kubernetes-int-or-string";
inline constexpr const char* kKeepUnknown = "x-kubernetes-preserve-unknown-fields";

Json text(const std::string& meaning);

// An object with these fields, in this order.
using Fields = std::initializer_list<std::pair<std::string, Json>>;
Json object(const std::string& meaning, Fields fields);

// Something with what it means here; nothing where that is empty.
Json described(std::string_view meaning, Json schema);

Json with(Json schema, const char* key, Json value);
Json with_default(Json schema, Json value);  // told in the description too
Json requiring(Json schema, std::initializer_list<const char*> fields);

// A CEL rule with what to write instead.
struct Rule {
  std::string rule;
  std::string message;
  std::string message_expression = {};  // CEL; `message` stands where it fails
  std::string field_path = {};          // ".replicaSpecs.Server"
};
Json with_rules(Json schema, std::initializer_list<Rule> rules);

}  // namespace coxswain::crd
