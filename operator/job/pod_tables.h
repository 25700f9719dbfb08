#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "operator/job/field.h"

// What https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/apis/core/validation/validation.go
// says of single fields of a pod, and of fields beside each other. `at` is how a path without
// indices ends: "ports[].name".
namespace coxswain::job {

using Texts = std::vector<std::string_view>;

// A text of a few words.
struct WordRule {
  std::string_view at;
  Texts words;
};

// A whole number of a range. The last row that fits counts.
struct NumberRule {
  std::string_view at;
  Range range;
};

// A text of a form. An empty one is an absent one, but in a list.
struct FormRule {
  std::string_view at;
  bool (*fits)(std::string_view);
  std::string_view form;
};

// Fields of an object that are given, and not empty.
struct RequiredRule {
  std::string_view at;
  Texts fields;
};

// How many fields an object has beside those of `except`.
struct ChoiceRule {
  std::string_view at;
  int least;
  int most;
  Texts except;
  std::string_view message;
};

// Entries of a list that differ in some field.
struct UniqueRule {
  std::string_view at;
  const char* field;
};

// How long a list may be.
struct LengthRule {
  std::string_view at;
  std::size_t most;
};

// What may not hold of an object at once; the first condition's field is to blame. "a": given and
// not empty; "!a": not so; "a=b", "a!=b": so of a list, if of any entry; "/a": of the pod's spec.
struct ConflictRule {
  std::string_view at;
  Texts conditions;
  std::string_view message;
};

std::span<const WordRule> word_rules();
std::span<const NumberRule> number_rules();
std::span<const FormRule> form_rules();
std::span<const RequiredRule> required_rules();
std::span<const ChoiceRule> choice_rules();
std::span<const UniqueRule> unique_rules();
std::span<const LengthRule> length_rules();
std::span<const ConflictRule> conflict_rules();

}  // namespace coxswain::job
