#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operator/convert/draft.h"

// The options of somebody else's program: a table, and how it reads its words.
namespace coxswain::convert {

// One option. `key` is the field of the spec that takes the value as it is; `take` does what is
// more than that. Without both nothing becomes of it, and `answer` says why; without an answer
// `take` says it.
struct Option {
  std::string_view names;  // "-n --num-workers"; a positional: "DIR"
  int values = 1;          // how many words follow it
  Outcome outcome = Outcome::kBecame;
  std::string_view answer = {};  // "{}" stands for the value
  std::string_view key = {};
  void (*take)(Draft& draft, const std::vector<std::string>& values) = nullptr;
};

enum class OptionStyle {
  kArgparse,  // Python's: --long, --long=value, what begins only one of them; -s value, -svalue
  kMpi,       // mpirun's: one dash or two, whole names alone
};

// Reads the options at the front of `words`, up to the first word that is none, or to all of them
// where the program goes on behind those (`positionals`). Each becomes a note of the draft; one
// that the table doesn't know has no place. Returns the words that are left.
std::vector<std::string> take_options(std::span<const Option> table, OptionStyle style,
                                      const std::vector<std::string>& words, Draft& draft,
                                      bool positionals = false);

}  // namespace coxswain::convert
