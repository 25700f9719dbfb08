#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "operator/job/field.h"
#include "operator/job/strategy_names.h"
#include "operator/job/training_job.h"
#include "operator/job/words.h"
#include "trainer/contract/rfc3339.h"
#include "trainer/contract/worker/json_fields.h"

namespace coxswain::job {

// "a string \"2\"", cut to 80 characters.
std::string describe(const Json& value);

// Reads the fields of one JSON object, and lists what is wrong with them. A field that is absent,
// null or wrong leaves its target as it was.
class JsonFields {
 public:
  // `value` must outlive this; anything but an object is a problem, and reads as an empty one.
  JsonFields(const Json& value, std::string path, std::vector<Problem>& problems);

  // The value of `key`; nullptr where it is absent or null.
  const Json* find(std::string_view key);
  const Json* require(std::string_view key);  // absent is a problem

  template <class T>
  void read(std::string_view key, T& target, const About& about = {}) {
    if (const Json* value = find(key)) take(*value, path_of(key), about, target);
  }

  // The elements of a list, each with its path; anything but a list is a problem.
  struct Element {
    const Json& value;
    std::string path;
  };
  std::vector<Element> elements(std::string_view key);

  std::string path_of(std::string_view key) const;
  std::vector<Problem>& problems() { return problems_; }
  void refuse(std::string path, std::string message);
  std::optional<std::int64_t> integer(const Json& value, const std::string& path, Range range);

  // Every key that nobody asked for is a problem, which names the nearest known one.
  void refuse_unknown();

 private:
  // False: it is no such value, which is a problem. Of a list those are left out that are none.
  bool take(const Json& value, const std::string& path, const About& about, bool& target);
  bool take(const Json& value, const std::string& path, const About& about, int& target);
  bool take(const Json& value, const std::string& path, const About& about, Seconds& target);
  bool take(const Json& value, const std::string& path, const About& about, std::string& target);
  bool take(const Json& value, const std::string& path, const About& about, Json& target);

  template <class E>
    requires std::is_enum_v<E>
  bool take(const Json& value, const std::string& path, const About&, E& target) {
    const auto known =
        value.is_string() ? value_of<E>(value.get_ref<const std::string&>()) : std::nullopt;
    if (known) {
      target = *known;
      return true;
    }
    std::string words;
    for (const auto& entry : words_of(E{}))
      words.append(words.empty() ? "" : ", ").append(entry.text);
    refuse(path, "must be one of " + words + "; got " + describe(value) + advice<E>(value));
    return false;
  }

  // What to write for a word of others.
  template <class E>
  static std::string advice(const Json& value) {
    if constexpr (requires { advice_for(E{}, std::string_view()); })
      if (value.is_string())
        if (const auto write = advice_for(E{}, value.get_ref<const std::string&>()); !write.empty())
          return ": write " + std::string(write);
    return "";
  }

  template <class T>
  bool take(const Json& value, const std::string& path, const About& about,
            std::optional<T>& target) {
    T inner{};
    const bool fits = take(value, path, about, inner);
    if (fits) target = std::move(inner);
    return fits;
  }

  template <class T>
  bool take(const Json& value, const std::string& path, const About& about,
            std::vector<T>& target) {
    for (const Element& element : elements_of(value, path))
      if (T inner{}; take(element.value, element.path, about, inner))
        target.push_back(std::move(inner));
    return true;
  }

  std::vector<Element> elements_of(const Json& value, const std::string& path);

  const Json& object_;
  std::string path_;
  std::vector<Problem>& problems_;
  std::set<std::string, std::less<>> known_;
};

// Writing an object as its table of fields says. What is empty or not set is left out.
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

using contract::find;
using contract::list_at;
using contract::member;
using contract::text_at;

}  // namespace coxswain::job
