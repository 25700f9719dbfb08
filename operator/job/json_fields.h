#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "operator/job/training_job.h"
#include "operator/job/words.h"

namespace coxswain::job {

struct Range {
  std::int64_t min = 0;
  std::int64_t max = 2147483647;
};

// Reads the fields of one JSON object, and lists what is wrong with them. A field that is absent,
// null or wrong leaves its target as it was.
class JsonFields {
 public:
  // `value` must outlive this; anything but an object is a problem, and reads as an empty one.
  JsonFields(const Json& value, std::string path, std::vector<Problem>& problems);

  // The value of `key`; nullptr where it is absent or null.
  const Json* find(std::string_view key);
  const Json* require(std::string_view key);  // absent is a problem

  void read(std::string_view key, int& target, Range range);
  void read(std::string_view key, std::optional<int>& target, Range range);
  void read(std::string_view key, Seconds& target, Range range);
  void read(std::string_view key, std::optional<Seconds>& target, Range range);
  void read(std::string_view key, bool& target);
  void read(std::string_view key, std::string& target);
  void read(std::string_view key, std::optional<std::string>& target);
  void read_object(std::string_view key, Json& target);
  void read_object(std::string_view key, std::optional<Json>& target);

  template <class E, std::size_t N>
  void read(std::string_view key, E& target, const Words<E, N>& words) {
    if (const Json* value = find(key)) read_word(*value, path_of(key), target, words);
  }
  template <class E, std::size_t N>
  void read(std::string_view key, std::optional<E>& target, const Words<E, N>& words) {
    E value{};
    if (const Json* found = find(key))
      if (read_word(*found, path_of(key), value, words)) target = value;
  }
  template <class E, std::size_t N>
  bool read_word(const Json& value, const std::string& path, E& target, const Words<E, N>& words) {
    const auto known =
        value.is_string() ? value_of(words, value.get_ref<const std::string&>()) : std::nullopt;
    if (known) target = *known;
    if (!known) refuse_word(path, value, list_words(words));
    return known.has_value();
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
  void refuse_word(const std::string& path, const Json& value, const std::string& known);

  const Json& object_;
  std::string path_;
  std::vector<Problem>& problems_;
  std::set<std::string, std::less<>> known_;
};

// "a string \"2\"", cut to 80 characters.
std::string describe(const Json& value);

// The member as a text; what is missing or of another type reads as empty.
std::string text_at(const Json& object, const char* key);

}  // namespace coxswain::job
