#include "trainer/contract/config/config_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "trainer/contract/config/nearest_key.h"
#include "trainer/contract/config/overload.h"
#include "trainer/contract/config/text.h"

namespace coxswain::contract {

namespace {

constexpr std::size_t kMaxTextBytes = 4096;
constexpr std::size_t kMaxListLength = 1000;

bool is_quoted(const YAML::Node& node) { return node.IsScalar() && node.Tag() == "!"; }

bool in_range(const Field& field, double value) {
  if (field.above_min ? value <= field.min : value < field.min) return false;
  return field.below_max ? value < field.max : value <= field.max;
}

std::string range_text(const Field& field) {
  if (field.above_min && field.below_max) {
    return fmt::format("above {} and below {}", number_text(field.min), number_text(field.max));
  }
  if (field.above_min) {
    return fmt::format("above {}, at most {}", number_text(field.min), number_text(field.max));
  }
  if (field.below_max) {
    return fmt::format("at least {}, below {}", number_text(field.min), number_text(field.max));
  }
  return fmt::format("{}..{}", number_text(field.min), number_text(field.max));
}

std::string quotes_hint(const YAML::Node& node) {
  return is_quoted(node) ? " in quotes; write it without them" : "";
}

// Parses text of the whole scalar as an integer type; `problem` says why it is none.
template <class Integer>
std::string parse_integer(const Field& field, const YAML::Node& node, Integer& value) {
  const std::string wanted = fmt::format("must be {}", expectation(field));
  if (!node.IsScalar()) return fmt::format("{}, got {}", wanted, describe(node));
  const std::string& text = node.Scalar();
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (is_quoted(node)) return fmt::format("{}, got {}{}", wanted, quote(text), quotes_hint(node));
  if (error == std::errc::result_out_of_range && stop == end) {
    return fmt::format("out of range: {}, got {}", wanted, quote(text));
  }
  if (error != std::errc() || stop != end) {
    return fmt::format("{}, got {}", wanted, quote(text));
  }
  if (!in_range(field, static_cast<double>(value))) {
    return fmt::format("out of range: {}, got {}", wanted, value);
  }
  return "";
}

bool has_control(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

// Stores a checked value.
class ValueReader {
 public:
  ValueReader(const Field& field, const YAML::Node& node, const ReportError& report)
      : field_(field), node_(node), report_(report) {}

  void operator()(bool* member) const {
    const std::string text = node_.IsScalar() && !is_quoted(node_) ? node_.Scalar() : "";
    if (text != "true" && text != "false") return fail_expectation();
    *member = text == "true";
  }

  void operator()(std::int64_t* member) const {
    if (const auto number = number_of_word()) {
      *member = *number;
      return;
    }
    store_integer(member);
  }

  void operator()(std::optional<std::int64_t>* member) const {
    if (const auto number = number_of_word()) {
      *member = *number;
      return;
    }
    std::int64_t value = 0;
    if (store_integer(&value)) *member = value;
  }

  // A negative number fits no unsigned type: said as out of range.
  void operator()(std::uint64_t* member) const {
    std::int64_t negative = 0;
    if (node_.IsScalar() && node_.Scalar().starts_with('-')) {
      store_integer(&negative);
      return;
    }
    store_integer(member);
  }

  void operator()(double* member) const {
    if (const auto number = number_of_word()) {
      *member = static_cast<double>(*number);
    } else if (const auto value = checked_number(node_, field_.key)) {
      *member = *value;
    }
  }

  void operator()(std::optional<double>* member) const {
    if (const auto number = number_of_word()) {
      *member = static_cast<double>(*number);
    } else if (const auto value = checked_number(node_, field_.key)) {
      *member = *value;
    }
  }

  void operator()(std::string* member) const {
    if (!node_.IsScalar()) return fail_expectation();
    const std::string& text = node_.Scalar();
    if (text.empty()) return fail("must not be empty");
    if (text.size() > kMaxTextBytes) {
      return fail(fmt::format("longer than {} bytes", kMaxTextBytes));
    }
    if (has_control(text)) {
      return fail(fmt::format("holds a control character: {}", quote(text)));
    }
    *member = text;
  }

  void operator()(std::vector<std::int64_t>* member) const { read_list(member); }
  void operator()(std::vector<double>* member) const { read_list(member); }
  void operator()(std::vector<std::string>* member) const {
    if (!node_.IsSequence() || node_.size() > kMaxListLength) return fail_expectation();
    std::vector<std::string> texts;
    for (const YAML::Node& entry : node_) {
      const std::string text = entry.IsScalar() ? entry.Scalar() : "";
      if (text.empty() || text.size() > kMaxTextBytes || has_control(text))
        return fail_expectation();
      texts.push_back(text);
    }
    *member = std::move(texts);
  }
  void operator()(std::vector<augment::Augmentation>* member) const {
    read_augment(node_, std::string(field_.key), *member, report_);
  }
  void operator()(const ChoiceRef& member) const {
    if (const auto index = choice_index()) member.set(*index);
  }

 private:
  std::optional<std::int64_t> number_of_word() const {
    if (!node_.IsScalar()) return std::nullopt;
    const auto words = split_choices(field_.words);
    const auto found = std::find(words.begin(), words.end(), node_.Scalar());
    if (found == words.end()) return std::nullopt;
    return words.begin() - found;
  }

  void fail(const std::string& what) const { report_(node_, std::string(field_.key), what); }
  void fail_expectation() const {
    fail(fmt::format("must be {}, got {}{}", expectation(field_), describe(node_),
                     quotes_hint(node_)));
  }

  template <class Integer>
  bool store_integer(Integer* member) const {
    Integer value = 0;
    const std::string problem = parse_integer(field_, node_, value);
    if (problem.empty()) {
      *member = value;
    } else {
      fail(problem);
    }
    return problem.empty();
  }

  std::optional<double> checked_number(const YAML::Node& node, std::string_view key) const {
    ParsedNumber number = parse_number(node);
    if (number.problem.empty() && !in_range(field_, number.value)) {
      number.problem = fmt::format("out of range: must be {}, got {}", range_text(field_),
                                   number_text(number.value));
    }
    if (number.problem.empty()) return number.value;
    report_(node, std::string(key), number.problem);
    return std::nullopt;
  }

  template <class Number>
  void read_list(std::vector<Number>* member) const {
    if (!node_.IsSequence()) return fail_expectation();
    if (node_.size() > kMaxListLength) {
      return fail(fmt::format("longer than {} entries", kMaxListLength));
    }
    std::vector<Number> values;
    for (std::size_t i = 0; i < node_.size(); ++i) {
      const std::string key = fmt::format("{}[{}]", field_.key, i);
      const auto value = checked_number(node_[i], key);
      if (!value) return;
      if (static_cast<double>(static_cast<Number>(*value)) != *value) {
        return report_(node_[i], key,
                       fmt::format("must be an integer, got {}", number_text(*value)));
      }
      values.push_back(static_cast<Number>(*value));
    }
    *member = std::move(values);
  }

  std::optional<std::size_t> choice_index() const {
    if (!node_.IsScalar()) {
      fail_expectation();
      return std::nullopt;
    }
    const std::string& text = node_.Scalar();
    const auto choices = choices_of(field_);
    const auto found = std::find(choices.begin(), choices.end(), text);
    if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
    const auto later = split_choices(field_.later);
    if (std::find(later.begin(), later.end(), text) != later.end()) {
      fail(fmt::format("{} is not in this version; write {}", quote(text), one_of(choices)));
    } else {
      const auto near = nearest_key(text, choices);
      fail(fmt::format("must be {}, got {}{}", one_of(choices), quote(text),
                       near ? fmt::format("; did you mean {}?", *near) : ""));
    }
    return std::nullopt;
  }

  const Field& field_;
  const YAML::Node& node_;
  const ReportError& report_;
};

std::string quoted_yaml(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

// How the value is written, where it is one that has a word.
std::optional<std::string> word_of(const Field& field, double value) {
  const auto words = split_choices(field.words);
  for (std::size_t i = 0; i < words.size(); ++i)
    if (value == -static_cast<double>(i)) return std::string(words[i]);
  return std::nullopt;
}

template <class Number>
std::string list_text(const std::vector<Number>& values) {
  std::vector<std::string> parts;
  for (const Number value : values) parts.push_back(number_text(static_cast<double>(value)));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace

std::vector<std::string_view> split_choices(std::string_view choices) {
  std::vector<std::string_view> parts;
  while (!choices.empty()) {
    const std::size_t bar = std::min(choices.find('|'), choices.size());
    parts.push_back(choices.substr(0, bar));
    choices.remove_prefix(std::min(bar + 1, choices.size()));
  }
  return parts;
}

std::vector<std::string_view> choices_of(const Field& field) {
  TrainerConfig config;
  const MemberRef member = field.member(config);
  const auto* choice = std::get_if<ChoiceRef>(&member);
  if (choice == nullptr) return {};
  return {choice->words.begin(), choice->words.end()};
}

std::string one_of(std::span<const std::string_view> words) {
  return fmt::format("{}{}", words.size() > 1 ? "one of " : "", fmt::join(words, ", "));
}

std::string number_text(double value) {
  // Whole numbers as integers ("1000000", not "1e+06"), others as short as they read back.
  if (value == std::trunc(value) && std::abs(value) < 1e16) return fmt::format("{:.0f}", value);
  return fmt::format("{}", value);
}

std::string describe(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return quote(node.Scalar());
    case YAML::NodeType::Sequence:
      return "a list";
    case YAML::NodeType::Map:
      return "a mapping";
    default:
      return "nothing";
  }
}

ParsedNumber parse_number(const YAML::Node& node) {
  if (!node.IsScalar() || is_quoted(node)) {
    return {
        .value = 0,
        .problem = fmt::format("must be a number, got {}{}", describe(node), quotes_hint(node))};
  }
  const std::string& text = node.Scalar();
  constexpr std::string_view kNotFinite[] = {".inf",  "+.inf", "-.inf", ".Inf",
                                             "-.Inf", ".nan",  ".NaN"};
  const bool yaml_not_finite =
      std::find(std::begin(kNotFinite), std::end(kNotFinite), text) != std::end(kNotFinite);
  ParsedNumber number;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number.value);
  const bool complete = stop == end && !text.empty() && error != std::errc::invalid_argument;
  if (yaml_not_finite || (complete && (error != std::errc() || !std::isfinite(number.value)))) {
    number.problem = fmt::format("must be a finite number, got {}", quote(text));
  } else if (!complete) {
    number.problem = fmt::format("must be a number, got {}", quote(text));
  }
  return number;
}

std::string expectation(const Field& field) {
  TrainerConfig config;
  std::string words;
  for (const std::string_view word : split_choices(field.words))
    words += fmt::format("\"{}\" or ", word);
  const std::string integer = fmt::format("{}an integer, {}", words, range_text(field));
  const std::string number = fmt::format("{}a number, {}", words, range_text(field));
  return std::visit(
      Overload{
          [](bool*) { return std::string("true or false"); },
          [&](std::int64_t*) { return integer; },
          [&](std::optional<std::int64_t>*) { return integer; },
          [](std::uint64_t*) { return std::string("an integer, 0..18446744073709551615"); },
          [&](double*) { return number; },
          [&](std::optional<double>*) { return number; },
          [](std::string*) { return std::string("text"); },
          [&](std::vector<std::int64_t>*) {
            return fmt::format("a list of integers, each {}", range_text(field));
          },
          [&](std::vector<double>*) {
            return fmt::format("a list of numbers, each {}", range_text(field));
          },
          [](std::vector<std::string>*) { return std::string("a list of texts"); },
          [](std::vector<augment::Augmentation>*) {
            return fmt::format("a list of {}", fmt::join(augment::kNames, ", "));
          },
          [](const ChoiceRef& choice) { return one_of(choice.words); },
      },
      field.member(config));
}

void read_value(const Field& field, const YAML::Node& node, TrainerConfig& config,
                const ReportError& report) {
  std::visit(ValueReader(field, node, report), field.member(config));
}

std::string value_text(const Field& field, const TrainerConfig& config) {
  TrainerConfig copy = config;  // members are reached through a mutable reference alone
  return std::visit(
      Overload{
          [](const bool* value) { return std::string(*value ? "true" : "false"); },
          [&](const std::int64_t* value) {
            return word_of(field, *value).value_or(fmt::format("{}", *value));
          },
          [&](const std::optional<std::int64_t>* value) {
            if (!*value) return std::string();
            return word_of(field, **value).value_or(fmt::format("{}", **value));
          },
          [](const std::uint64_t* value) { return fmt::format("{}", *value); },
          [&](const double* value) { return word_of(field, *value).value_or(number_text(*value)); },
          [&](const std::optional<double>* value) {
            if (!*value) return std::string();
            return word_of(field, **value).value_or(number_text(**value));
          },
          [](const std::string* value) { return value->empty() ? "" : quoted_yaml(*value); },
          [](const std::vector<std::int64_t>* value) { return list_text(*value); },
          [](const std::vector<double>* value) { return list_text(*value); },
          [](const std::vector<std::string>* value) {
            std::vector<std::string> texts;
            for (const std::string& text : *value) texts.push_back(quoted_yaml(text));
            return fmt::format("[{}]", fmt::join(texts, ", "));
          },
          [](const std::vector<augment::Augmentation>* value) { return augment_text(*value); },
          [](const ChoiceRef& value) { return std::string(value.get()); },
      },
      field.member(copy));
}

}  // namespace coxswain::contract
