#include "operator/job/status_json.h"

#include <algorithm>

#include "operator/job/job_reader.h"
#include "operator/job/json_writer.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::job {

namespace {

// Far above what the operator ever counts to, and low enough that counts can be added up.
constexpr std::int64_t kMostCount = 500'000'000;

// Each takes a value that fits; of another the target stays as it was.
void take(const Json& value, const About& about, int& target) {
  if (!value.is_number_integer()) return;
  const auto number = value.get<std::int64_t>();
  if (number >= about.range.min && number <= std::min(about.range.max, kMostCount))
    target = static_cast<int>(number);
}

void take(const Json& value, const About&, std::int64_t& target) {
  if (value.is_number_integer()) target = value.get<std::int64_t>();
}

void take(const Json& value, const About&, double& target) {
  if (value.is_number()) target = value.get<double>();
}

void take(const Json& value, const About&, std::string& target) {
  if (value.is_string()) target = value.get<std::string>();
}

void take(const Json& value, const About& about, bool& target) {
  target = about.as_word ? value == "True" : value == true;
}

template <class E>
  requires std::is_enum_v<E>
void take(const Json& value, const About&, E& target) {
  if (value.is_string()) target = value_of<E>(value.get<std::string>()).value_or(target);
}

void take(const Json& value, const About&, Time& target) {
  if (value.is_string()) target = parse_rfc3339(value.get<std::string>()).value_or(target);
}

void take(const Json& value, const About&, std::optional<Time>& target) {
  if (value.is_string()) target = parse_rfc3339(value.get<std::string>());
}

void take(const Json& value, const About&, std::optional<double>& target) {
  if (value.is_number()) target = value.get<double>();
}

void take(const Json& value, const About&, std::optional<int>& target) {
  if (value.is_number_integer()) target = static_cast<int>(value.get<std::int64_t>());
}

template <class T, class Table>
void read_fields(const Json& json, const Table& table, T& target);

template <class T, class Table>
void read_object(const Json& json, const Table& table, T& target) {
  if (json.is_object()) read_fields(json, table, target);
}

template <class T, class Table>
void read_object(const Json& json, const Table& table, std::optional<T>& target) {
  if (json.is_object() && !json.empty()) read_fields(json, table, target.emplace());
}

template <class T, class Table>
void read_object(const Json& json, const Table& table, std::vector<T>& target) {
  if (!json.is_array()) return;
  for (const Json& item : json)
    if (item.is_object()) read_fields(item, table, target.emplace_back());
}

template <class T, class Table>
void read_object(const Json& json, const Table& table, std::map<Role, T>& target) {
  if (!json.is_object()) return;
  for (const auto& [role, text] : words_of(Role{}))
    if (const auto found = json.find(std::string(text)); found != json.end())
      read_object(*found, table, target[role]);
}

template <class Owner, class Member>
void read_row(const Json& value, const Field<Owner, Member>& row, Owner& owner) {
  take(value, row.about, owner.*row.member);
}

template <class Owner, class Member, class Table>
void read_row(const Json& value, const Object<Owner, Member, Table>& row, Owner& owner) {
  read_object(value, row.fields, owner.*row.member);
}

template <class Owner, class Value>
void read_row(const Json&, const Column<Owner, Value>&, Owner&) {}

template <class T, class Table>
void read_fields(const Json& json, const Table& table, T& target) {
  for_each_row(table, [&](const auto& row) {
    if (const auto found = json.find(row.key); found != json.end()) read_row(*found, row, target);
  });
}

}  // namespace

Json to_json(const Status& status) { return write_fields(status, kStatusFields); }

Status read_status(const Json& json) {
  Status status;
  read_object(json, kStatusFields, status);
  return status;
}

}  // namespace coxswain::job
