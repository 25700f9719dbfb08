#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "trainer/contract/config/trainer_config.h"

namespace coxswain::contract {

using Config = TrainerConfig;

// What a resume does when the value changed (docs/design.md, "What a resume needs"): refuse, warn,
// or go on.
enum class FieldKind { kIdentity, kTrajectory, kFree };

// An enum member, read and written as a word of its table.
struct ChoiceRef {
  std::span<const std::string_view> words;
  std::function<std::string_view()> get;
  std::function<void(std::size_t word)> set;
};

// The words of an enum alone, in its table's order.
template <class E>
inline constexpr auto kTexts = [] {
  constexpr auto words = words_of(E{});
  std::array<std::string_view, words.size()> texts;
  for (std::size_t i = 0; i < words.size(); ++i) texts[i] = words[i].text;
  return texts;
}();

// A member of a TrainerConfig; its alternative is the field's type.
using MemberRef =
    std::variant<bool*, std::int64_t*, std::optional<std::int64_t>*, std::uint64_t*, double*,
                 std::optional<double>*, std::string*, std::vector<std::int64_t>*,
                 std::vector<double>*, std::vector<std::string>*,
                 std::vector<augment::Augmentation>*, ChoiceRef>;

template <class Member>
MemberRef to_ref(Member& member) {
  if constexpr (std::is_enum_v<Member>) {
    return ChoiceRef{kTexts<Member>, [&member] { return word(words_of(Member{}), member); },
                     [&member](std::size_t i) { member = words_of(Member{})[i].value; }};
  } else {
    return &member;
  }
}

// Value. One key of the training configuration. Its type is its member's, its default the member's
// initialiser.
struct Field {
  std::string_view key;  // "optimizer.lr"
  MemberRef (*member)(Config&);
  FieldKind kind;
  std::string_view doc;  // one line
  double min = 0;        // numbers, and each number of a list
  double max = 0;
  bool above_min = false;              // min itself is out
  bool below_max = false;              // max itself is out
  std::string_view later = {};         // values of later versions, "lars|lamb"
  std::string_view words = {};         // how 0, then -1, are written: "auto", "dynamic|tf"
  std::string_view default_text = {};  // for the reader of the docs, where one value doesn't say it
  std::string_view only_key = {};      // means something only while only_key has one of only_values
  std::string_view only_values = {};
  bool required = false;
  std::string_view instead = {};  // of a required key: the one that may stand in its place
};

// The parts of "a|b|c"; none for an empty list.
std::vector<std::string_view> split_choices(std::string_view choices);

// The words that a value may be, of an enum; none for another field.
std::vector<std::string_view> choices_of(const Field& field);

}  // namespace coxswain::contract
