#include "operator/convert/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "operator/job/yaml.h"
#include "trainer/contract/config/nearest_key.h"

namespace coxswain::convert {

namespace {

std::vector<std::string_view> names_of(const Option& option) {
  std::vector<std::string_view> names;
  std::string_view rest = option.names;
  while (!rest.empty()) {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    names.push_back(rest.substr(0, space));
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  return names;
}

bool is_option(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

// Dashes and underscores are one; mpirun takes one dash for two.
std::string spelt(std::string_view name, OptionStyle style) {
  std::string text(name);
  if (style == OptionStyle::kMpi)
    text = "-" + text.substr(std::min(text.find_first_not_of('-'), text.size()));
  std::replace(text.begin() + std::min<std::ptrdiff_t>(2, std::ssize(text)), text.end(), '_', '-');
  return text;
}

struct Match {
  const Option* option = nullptr;
  std::vector<std::string> attached = {};  // a value within the word: --long=value, -svalue
  std::string problem = {};
};

class Reader {
 public:
  Reader(std::span<const Option> table, OptionStyle style, Draft& draft)
      : table_(table), style_(style), draft_(draft) {}

  std::vector<std::string> read(const std::vector<std::string>& words, bool positionals) {
    std::vector<std::string> left;
    std::size_t place = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "--") {
        left.insert(left.end(), words.begin() + std::ptrdiff_t(i) + 1, words.end());
        break;
      }
      if (is_option(words[i])) {
        i = take_option(words, i);
        continue;
      }
      if (!positionals) {
        left.assign(words.begin() + std::ptrdiff_t(i), words.end());
        break;
      }
      if (const Option* option = positional(place++))
        apply(*option, {words[i]}, words[i]);
      else
        draft_.no_place(words[i], "the program takes no such argument");
    }
    return left;
  }

 private:
  // Returns the index of its last word.
  std::size_t take_option(const std::vector<std::string>& words, std::size_t i) {
    const Match match = find(words[i]);
    if (!match.option) {
      draft_.no_place(words[i], match.problem);
      return i;
    }
    std::vector<std::string> values = match.attached;
    std::string what = words[i];
    while (std::ssize(values) < match.option->values && i + 1 < words.size()) {
      values.push_back(words[++i]);
      what += " " + values.back();
    }
    if (std::ssize(values) < match.option->values)
      draft_.no_place(what, "needs a value");
    else
      apply(*match.option, values, what);
    return i;
  }

  void apply(const Option& option, const std::vector<std::string>& values,
             const std::string& what) {
    const std::string value = values.empty() ? "" : values.front();
    std::string answer(option.answer);
    if (const std::size_t hole = answer.find("{}"); hole != std::string::npos)
      answer.replace(hole, 2, value);
    if (!answer.empty())
      draft_.note(option.outcome, what, answer);
    else if (!option.key.empty())
      draft_.note(option.outcome, what, fmt::format("{}: {}", option.key, value));
    if (!option.key.empty()) draft_.put(option.key, job::plain_scalar(value));
    if (option.take) option.take(draft_, values);
  }

  const Option* positional(std::size_t place) const {
    for (const Option& option : table_)
      if (option.names.front() != '-' && place-- == 0) return &option;
    return nullptr;
  }

  Match find(const std::string& word) const {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = spelt(word.substr(0, equals), style_);
    Match match;
    if (equals < word.size()) match.attached = {word.substr(equals + 1)};
    if ((match.option = exactly(name))) {
      if (!match.attached.empty() && match.option->values == 0)
        return {.problem = fmt::format("{} takes no value", name)};
      return match;
    }
    if (style_ == OptionStyle::kArgparse && name.starts_with("--")) return beginning(name, match);
    if (style_ == OptionStyle::kArgparse && word.size() > 2)  // -n2
      if (const Option* option = exactly(word.substr(0, 2)); option && option->values == 1)
        return {.option = option, .attached = {word.substr(2)}};
    return {.problem = unknown(name)};
  }

  const Option* exactly(const std::string& name) const {
    for (const Option& option : table_)
      for (const std::string_view known : names_of(option))
        if (is_option(known) && spelt(known, style_) == name) return &option;
    return nullptr;
  }

  // argparse takes `--num-epoch` for `--num-epochs` if no other option begins so.
  Match beginning(const std::string& name, Match match) const {
    std::vector<std::string> meant;
    for (const Option& option : table_)
      for (const std::string_view known : names_of(option))
        if (spelt(known, style_).starts_with(name)) {
          match.option = &option;
          meant.push_back(spelt(known, style_));
        }
    if (meant.size() == 1) return match;
    if (meant.empty()) return {.problem = unknown(name)};
    return {.problem = fmt::format("could be {} or {}", meant[0], meant[1])};
  }

  std::string unknown(const std::string& name) const {
    std::vector<std::string_view> known;
    for (const Option& option : table_)
      for (const std::string_view one : names_of(option))
        if (one.starts_with("--")) known.push_back(one);
    const auto meant = contract::nearest_key(name, known);
    return meant ? fmt::format("unknown option; did you mean {}?", *meant) : "unknown option";
  }

  std::span<const Option> table_;
  OptionStyle style_;
  Draft& draft_;
};

}  // namespace

std::vector<std::string> take_options(std::span<const Option> table, OptionStyle style,
                                      const std::vector<std::string>& words, Draft& draft,
                                      bool positionals) {
  return Reader(table, style, draft).read(words, positionals);
}

}  // namespace coxswain::convert
