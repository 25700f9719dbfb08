#pragma once

#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "operator/job/field.h"
#include "operator/job/words.h"
#include "trainer/contract/rfc3339.h"

// Writes an object as its table of fields says. What is empty or not set is left out.
namespace coxswain::job {

inline Json to_value(bool value, const About& about) {
  return about.as_word ? Json(value ? "True" : "False") : Json(value);
}
inline Json to_value(int value, const About& about) {
  return value == 0 && !about.zero_word.empty() ? Json(about.zero_word) : Json(value);
}
inline Json to_value(Seconds value, const About&) { return value.count(); }
inline Json to_value(Time value, const About&) { return to_rfc3339(value); }

template <class T>
Json to_value(const T& value, const About&) {
  if constexpr (std::is_enum_v<T>)
    return word(value);
  else
    return value;
}

template <class T>
Json to_value(const std::vector<T>& values, const About& about) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(to_value(value, about));
  return list;
}

template <class T>
bool is_left_out(const T& value, const About& about) {
  if constexpr (requires { value.empty(); })
    return value.empty();
  else
    return about.omit_zero && value == T{};
}

template <class T>
void put(Json& object, const char* key, const T& value, const About& about) {
  if (!is_left_out(value, about)) object[key] = to_value(value, about);
}

template <class T>
void put(Json& object, const char* key, const std::optional<T>& value, const About& about) {
  if (value) object[key] = to_value(*value, about);
}

template <class Owner, class Table>
Json write_fields(const Owner& owner, const Table& table);

template <class T, class Table>
Json write_object(const T& value, const Table& table) {
  return write_fields(value, table);
}

template <class T, class Table>
Json write_object(const std::optional<T>& value, const Table& table) {
  return value ? write_fields(*value, table) : Json();
}

template <class T, class Table>
Json write_object(const std::vector<T>& values, const Table& table) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(write_fields(value, table));
  return list;
}

template <class T, class Table>
Json write_object(const std::map<Role, T>& values, const Table& table) {
  Json object = Json::object();
  for (const auto& [role, value] : values)
    object[std::string(word(role))] = write_fields(value, table);
  return object;
}

template <class Owner, class Member>
void write_row(Json& json, const Owner& owner, const Field<Owner, Member>& row) {
  put(json, row.key, owner.*row.member, row.about);
}

template <class Owner, class Member, class Table>
void write_row(Json& json, const Owner& owner, const Object<Owner, Member, Table>& row) {
  put(json, row.key, write_object(owner.*row.member, row.fields), row.about);
}

template <class Owner, class Table>
void write_row(Json& json, const Owner& owner, const Group<Table>& row) {
  put(json, row.key, write_fields(owner, row.fields), row.about);
}

template <class Owner, class Value>
void write_row(Json& json, const Owner& owner, const Column<Owner, Value>& row) {
  put(json, row.key, row.make(owner), row.about);
}

template <class Owner, class Table>
Json write_fields(const Owner& owner, const Table& table) {
  Json json = Json::object();
  for_each_row(table, [&](const auto& row) { write_row(json, owner, row); });
  return json;
}

}  // namespace coxswain::job
