#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

// What a table says of the fields of an object: spec.h and status.h hold the tables. They drive
// reader, writer, the CRD's schema and docs/job-fields.md.
namespace coxswain::job {

using Json = nlohmann::json;
using Seconds = std::chrono::seconds;
using Time = std::chrono::sys_seconds;  // UTC; the status stores whole seconds

struct Range {
  std::int64_t min = 0;
  std::int64_t max = 2147483647;
};

struct About {
  std::string_view doc = {};
  Range range = {};                // of a number, and of each in a list
  std::string_view zero_word = {};  // how 0 is written: "auto"
  std::string_view schema = {};     // of an object that is described elsewhere: "VolumeSource"
  std::string_view item_doc = {};   // what one of a list means
  int max_items = 0;                // of a list
  int max_length = 0;               // of a text, and of each in a list; 0: any
  bool required = false;
  bool omit_zero = false;  // in the status: what is 0 or the first word is not written
  bool as_word = false;    // in the status: true is written True
};

// A value of one of these types: bool, int, Seconds, a text, a word, an object of Kubernetes; a
// list of them, or an optional one. Its default is the member's initialiser.
template <class Owner, class Member>
struct Field {
  const char* key;
  Member Owner::*member;
  About about;
};

// An object with a table of its own; or an optional one, a list of them, or one for each role.
template <class Owner, class Member, class Table>
struct Object {
  const char* key;
  Member Owner::*member;
  Table fields;
  About about;
};

// An object whose fields are members of the object around it.
template <class Table>
struct Group {
  const char* key;
  Table fields;
  About about;
};

// Made of others for a printer's column, and never read back.
template <class Owner, class Value>
struct Column {
  const char* key;
  Value (*make)(const Owner&);
  About about;
};

template <class... Rows, class Visit>
constexpr void for_each_row(const std::tuple<Rows...>& table, const Visit& visit) {
  std::apply([&](const Rows&... rows) { (visit(rows), ...); }, table);
}

}  // namespace coxswain::job
