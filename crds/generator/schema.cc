#include "crds/generator/schema.h"

namespace coxswain::crd {

Json described(std::string_view meaning, Json schema) {
  if (meaning.empty()) return schema;
  Json result = {{"description", meaning}};
  result.update(schema);
  return result;
}

Json text(const std::string& meaning) { return described(meaning, {{"type", "string"}}); }

Json object(const std::string& meaning, Fields fields) {
  Json schema = described(meaning, {{"type", "object"}, {"properties", Json::object()}});
  for (const auto& [name, field] : fields) schema["properties"][name] = field;
  return schema;
}

Json with(Json schema, const char* key, Json value) {
  schema[key] = std::move(value);
  return schema;
}

Json with_default(Json schema, Json value) {
  // `kubectl explain` shows no defaults of its own.
  const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
  schema["description"] = schema["description"].get<std::string>() + " Default: " + shown + ".";
  return with(std::move(schema), "default", std::move(value));
}

Json requiring(Json schema, std::initializer_list<const char*> fields) {
  for (const char* field : fields) schema["required"].push_back(field);
  return schema;
}

Json with_rules(Json schema, std::initializer_list<Rule> rules) {
  for (const Rule& rule : rules) {
    Json entry = {{"rule", rule.rule}, {"message", rule.message}};
    if (!rule.message_expression.empty()) entry["messageExpression"] = rule.message_expression;
    if (!rule.field_path.empty()) entry["fieldPath"] = rule.field_path;
    schema["x-kubernetes-validations"].push_back(entry);
  }
  return schema;
}

}  // namespace coxswain::crd
