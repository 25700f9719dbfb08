#include "crds/generator/field_schema.h"

namespace coxswain::crd {

Json text_type(const job::About& about) {
  Json schema = {{"type", "string"}};
  if (about.max_length > 0) schema["maxLength"] = about.max_length;
  return schema;
}

Json integer_type(const job::About& about, const char* format, Writer writer) {
  if (!about.zero_word.empty()) return {{kIntOrString, true}, {"maxLength", 8}};
  Json schema = {{"type", "integer"}, {"format", format}};
  if (writer == Writer::kOperator) return schema;
  schema["minimum"] = about.range.min;
  schema["maximum"] = about.range.max;
  return schema;
}

Json list_schema(const job::About& about, Json items) {
  return described(
      about.doc,
      {{"type", "array"}, {"maxItems", about.max_items}, {"items", std::move(items)}});
}

}  // namespace coxswain::crd
