#include "operator/job/spec_json.h"

#include "operator/job/json_fields.h"
#include "operator/job/json_writer.h"

namespace coxswain::job {

namespace {

template <class Owner, class Table>
void read_fields(JsonFields& fields, Owner& owner, const Table& table);

template <class T, class Table>
void read_object(const Json& value, const std::string& path, std::vector<Problem>& problems,
                 const Table& table, T& target) {
  JsonFields fields(value, path, problems);
  read_fields(fields, target, table);
}

template <class T, class Table>
void read_object(const Json& value, const std::string& path, std::vector<Problem>& problems,
                 const Table& table, std::optional<T>& target) {
  read_object(value, path, problems, table, target.emplace());
}

template <class Owner, class Member>
void read_row(JsonFields& fields, Owner& owner, const Field<Owner, Member>& row) {
  fields.read(row.key, owner.*row.member, row.about);
}

template <class Owner, class T, class Table>
void read_row(JsonFields& fields, Owner& owner, const Object<Owner, T, Table>& row) {
  if (const Json* value = fields.find(row.key))
    read_object(*value, fields.path_of(row.key), fields.problems(), row.fields, owner.*row.member);
}

template <class Owner, class T, class Table>
void read_row(JsonFields& fields, Owner& owner, const Object<Owner, std::vector<T>, Table>& row) {
  for (const auto& [value, path] : fields.elements(row.key))
    read_object(value, path, fields.problems(), row.fields,
                (owner.*row.member).emplace_back());
}

template <class Owner, class Table>
void read_row(JsonFields& fields, Owner& owner, const Group<Table>& row) {
  if (const Json* value = fields.find(row.key))
    read_object(*value, fields.path_of(row.key), fields.problems(), row.fields, owner);
}

template <class Owner, class Table>
void read_fields(JsonFields& fields, Owner& owner, const Table& table) {
  for_each_row(table, [&](const auto& row) {
    if (row.about.required) fields.require(row.key);
    read_row(fields, owner, row);
  });
  fields.refuse_unknown();
}

}  // namespace

Spec read_spec(const Json& value, std::vector<Problem>& problems) {
  Spec spec;
  read_object(value, "spec", problems, kSpecFields, spec);
  return spec;
}

Json to_json(const Spec& spec) { return write_fields(spec, kSpecFields); }

}  // namespace coxswain::job
