#pragma once

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "crds/generator/schema.h"
#include "operator/job/field.h"
#include "operator/job/json_fields.h"
#include "operator/job/words.h"

// A table of fields as an OpenAPI v3 schema.
namespace coxswain::crd {

// What a user may write has limits and defaults; what the operator writes is as it is.
enum class Writer { kUser, kOperator };

struct SchemaContext {
  Writer writer = Writer::kUser;
  std::map<std::string_view, Json> foreign = {};  // objects described elsewhere, by About::schema
};

Json text_type(const job::About& about);
Json integer_type(const job::About& about, const char* format, Writer writer);

template <class T>
struct TypeOf {
  using Single = T;
  static constexpr bool kIsOptional = false;
  static constexpr bool kIsList = false;
  static constexpr bool kIsPerRole = false;
};
template <class T>
struct TypeOf<std::optional<T>> : TypeOf<T> {
  static constexpr bool kIsOptional = true;
};
template <class T>
struct TypeOf<std::vector<T>> : TypeOf<T> {
  static constexpr bool kIsList = true;
};
template <class T>
struct TypeOf<std::map<job::Role, T>> : TypeOf<T> {
  static constexpr bool kIsPerRole = true;
};

template <class T>
Json type_schema(const job::About& about, const SchemaContext& context) {
  if constexpr (std::is_enum_v<T>) {
    Json schema = {{"type", "string"}};
    if (context.writer == Writer::kOperator) return schema;
    for (const auto& entry : words_of(T{})) schema["enum"].push_back(entry.text);
    return schema;
  } else if constexpr (std::is_same_v<T, bool>) {
    return about.as_word ? text_type(about) : Json{{"type", "boolean"}};
  } else if constexpr (std::is_same_v<T, int> || std::is_same_v<T, job::Seconds>) {
    return integer_type(about, "int32", context.writer);
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return integer_type(about, "int64", context.writer);
  } else if constexpr (std::is_same_v<T, double>) {
    return {{"type", "number"}};
  } else if constexpr (std::is_same_v<T, job::Time>) {
    return {{"type", "string"}, {"format", "date-time"}};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return text_type(about);
  } else {
    static_assert(std::is_same_v<T, job::Json>);
    return context.foreign.at(about.schema);
  }
}

Json list_schema(const job::About& about, Json items);

template <class Table>
Json object_schema(std::string_view doc, const Table& table, const SchemaContext& context);

template <class Owner, class Member>
Json row_schema(const job::Field<Owner, Member>& row, const SchemaContext& context) {
  using Type = TypeOf<Member>;
  using Single = typename Type::Single;
  Json type = type_schema<Single>(row.about, context);
  if constexpr (Type::kIsList) {
    type.erase("format");
    return list_schema(row.about, std::move(type));
  }
  Json schema = described(row.about.doc, std::move(type));
  constexpr bool kHasDefault = !Type::kIsOptional && !std::is_same_v<Single, std::string> &&
                               !std::is_same_v<Single, job::Json>;
  if constexpr (kHasDefault)
    if (context.writer == Writer::kUser && !row.about.required) {
      const Json standard = job::to_value(Owner{}.*row.member, row.about);
      return row.about.zero_word.empty() ? with_default(std::move(schema), standard)
                                         : with(std::move(schema), "default", standard);
    }
  return schema;
}

template <class Owner, class Member, class Table>
Json row_schema(const job::Object<Owner, Member, Table>& row, const SchemaContext& context) {
  using Type = TypeOf<Member>;
  if constexpr (Type::kIsList)
    return list_schema(row.about, object_schema(row.about.item_doc, row.fields, context));
  if constexpr (Type::kIsPerRole) {
    Json schema = described(row.about.doc, {{"type", "object"}, {"properties", Json::object()}});
    for (const auto& [role, text] : words_of(job::Role{}))
      schema["properties"][std::string(text)] =
          object_schema(fmt::format("Pods of role {}.", text), row.fields, context);
    return schema;
  }
  return object_schema(row.about.doc, row.fields, context);
}

template <class Table>
Json row_schema(const job::Group<Table>& row, const SchemaContext& context) {
  return object_schema(row.about.doc, row.fields, context);
}

template <class Owner, class Value>
Json row_schema(const job::Column<Owner, Value>& row, const SchemaContext& context) {
  return described(row.about.doc, type_schema<Value>(row.about, context));
}

template <class Table>
Json object_schema(std::string_view doc, const Table& table, const SchemaContext& context) {
  Json schema =
      described(std::string(doc), {{"type", "object"}, {"properties", Json::object()}});
  job::for_each_row(table, [&](const auto& row) {
    schema["properties"][row.key] = row_schema(row, context);
    if (row.about.required) schema["required"].push_back(row.key);
  });
  return schema;
}

}  // namespace coxswain::crd
