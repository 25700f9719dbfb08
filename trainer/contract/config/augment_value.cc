#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "trainer/contract/config/config_fields.h"
#include "trainer/contract/config/config_value.h"
#include "trainer/contract/config/text.h"

namespace coxswain::contract {

namespace {

using augment::Augmentation;

constexpr std::size_t kMaxAugmentations = 16;

// Reads the options of one augmentation; remembers whether anything was wrong.
class OptionReader {
 public:
  OptionReader(const YAML::Node& options, std::string key, const ReportError& report)
      : options_(options), key_(std::move(key)), report_(report) {}

  bool ok() const { return ok_; }

  void fail(const std::string& what) { fail(options_, "", what); }
  void fail(const YAML::Node& node, const std::string& name, const std::string& what) {
    report_(node, name.empty() ? key_ : fmt::format("{}.{}", key_, name), what);
    ok_ = false;
  }

  // An option that may stand without its name: `resize: 256`.
  void take_alone(const std::string& name) {
    if (!options_.IsScalar() && !options_.IsSequence()) return;
    YAML::Node named(YAML::NodeType::Map);
    named[name] = options_;
    options_.reset(named);
  }

  // Refuses every option that is none of `names`.
  void know(const std::vector<std::string_view>& names) {
    if (options_.IsNull()) return;
    if (names.empty()) return fail(options_, "", "takes no options");
    if (!options_.IsMap()) {
      return fail(options_, "", fmt::format("must be a mapping, got {}", describe(options_)));
    }
    for (const auto& option : options_) {
      const std::string name = option.first.Scalar();
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        fail(option.first, "", fmt::format("unknown option {}; {}", quote(name), one_of(names)));
      }
    }
  }

  template <class Enum>
  void choice(const std::string& name, Enum& value) {
    const YAML::Node node = option(name);
    if (!node.IsDefined()) return;
    const auto known = value_of(words_of(Enum{}), node.IsScalar() ? node.Scalar() : "");
    if (!known) {
      fail(node, name, fmt::format("must be {}, got {}", one_of(kTexts<Enum>), describe(node)));
      return;
    }
    value = *known;
  }

  void integer(const std::string& name, std::int64_t min, std::int64_t max, std::int64_t& value) {
    const YAML::Node node = option(name);
    if (!node.IsDefined()) return;
    ParsedNumber number = parse_number(node);
    const auto whole = static_cast<std::int64_t>(std::clamp(number.value, -1e9, 1e9));
    if (!number.problem.empty() || static_cast<double>(whole) != number.value || whole < min ||
        whole > max) {
      fail(node, name, fmt::format("must be an integer, {}..{}, got {}", min, max, describe(node)));
      return;
    }
    value = whole;
  }

  void number(const std::string& name, double min, double max, double& value) {
    const YAML::Node node = option(name);
    if (!node.IsDefined()) return;
    const ParsedNumber number = parse_number(node);
    if (!number.problem.empty() || number.value < min || number.value > max) {
      fail(node, name,
           fmt::format("must be a number, {}..{}, got {}", number_text(min), number_text(max),
                       describe(node)));
      return;
    }
    value = number.value;
  }

  // The least and the most: two numbers that do not fall.
  void range(const std::string& name, double min, double max, std::array<double, 2>& values) {
    const YAML::Node node = option(name);
    if (!node.IsDefined()) return;
    const auto expected =
        fmt::format("must be [least, most], each {}..{}", number_text(min), number_text(max));
    if (!node.IsSequence() || node.size() != 2) return fail(node, name, expected);
    std::array<double, 2> read{};
    for (std::size_t i = 0; i < 2; ++i) {
      const ParsedNumber number = parse_number(node[i]);
      read[i] = number.value;
      if (!number.problem.empty() || read[i] < min || read[i] > max)
        return fail(node[i], name, expected);
    }
    if (read[0] > read[1]) return fail(node, name, expected);
    values = read;
  }

  // A list of finite numbers, each above `min`.
  void numbers(const std::string& name, double min, std::vector<double>& values) {
    const YAML::Node node = option(name);
    if (!node.IsDefined() || !node.IsSequence() || node.size() == 0 || node.size() > 4096) {
      fail(node.IsDefined() ? node : options_, name, "must be a list of numbers, one a channel");
      return;
    }
    values.clear();
    for (const auto& entry : node) {
      ParsedNumber number = parse_number(entry);
      if (number.problem.empty() && number.value <= min) {
        number.problem =
            fmt::format("must be above {}, got {}", number_text(min), number_text(number.value));
      }
      if (!number.problem.empty()) return fail(entry, name, number.problem);
      values.push_back(number.value);
    }
  }

 private:
  YAML::Node option(const std::string& name) const {
    return options_.IsMap() ? options_[name] : YAML::Node(YAML::NodeType::Undefined);
  }

  YAML::Node options_;
  std::string key_;
  const ReportError& report_;
  bool ok_ = true;
};

// What an augmentation's options are called.
struct OptionNames {
  std::vector<std::string_view> names;

  template <class... Rest>
  void number(std::string_view name, const Rest&...) {
    names.push_back(name);
  }
  template <class... Rest>
  void range(std::string_view name, const Rest&...) {
    names.push_back(name);
  }

  template <class... Rest>
  void integer(std::string_view name, const Rest&...) {
    names.push_back(name);
  }
  template <class... Rest>
  void choice(std::string_view name, const Rest&...) {
    names.push_back(name);
  }
  template <class... Rest>
  void numbers(std::string_view name, const Rest&...) {
    names.push_back(name);
  }
};

// "pad: 4" of each option.
struct OptionTexts {
  std::vector<std::string> texts;

  void integer(std::string_view name, std::int64_t, std::int64_t, std::int64_t value) {
    texts.push_back(fmt::format("{}: {}", name, value));
  }
  void number(std::string_view name, double, double, double value) {
    texts.push_back(fmt::format("{}: {}", name, number_text(value)));
  }
  void range(std::string_view name, double, double, const std::array<double, 2>& values) {
    texts.push_back(
        fmt::format("{}: [{}, {}]", name, number_text(values[0]), number_text(values[1])));
  }
  template <class Enum>
  void choice(std::string_view name, Enum value) {
    texts.push_back(fmt::format("{}: {}", name, word(words_of(value), value)));
  }
  void numbers(std::string_view name, double, const std::vector<double>& values) {
    std::vector<std::string> parts;
    for (const double value : values) parts.push_back(number_text(value));
    texts.push_back(fmt::format("{}: [{}]", name, fmt::join(parts, ", ")));
  }
};

template <class Step>
std::optional<Augmentation> read_options(OptionReader& reader) {
  if constexpr (requires { Step::kMain; }) reader.take_alone(std::string(Step::kMain));
  Step step;
  OptionNames options;
  Step::visit_options(step, options);
  reader.know(options.names);
  Step::visit_options(step, reader);
  return reader.ok() ? std::optional<Augmentation>(step) : std::nullopt;
}

template <class... Steps>
std::optional<Augmentation> read_one(std::type_identity<std::variant<Steps...>>,
                                     std::string_view name, OptionReader& reader) {
  std::optional<Augmentation> result;
  const bool known =
      ((name == Steps::kName && (result = read_options<Steps>(reader), true)) || ...);
  if (!known) reader.fail(fmt::format("unknown augmentation; {}", one_of(augment::kNames)));
  return result;
}

std::optional<Augmentation> read_one(const std::string& name, const YAML::Node& options,
                                     const std::string& key, const ReportError& report) {
  OptionReader reader(options, fmt::format("{}.{}", key, name), report);
  return read_one(std::type_identity<Augmentation>{}, name, reader);
}

}  // namespace

void read_augment(const YAML::Node& node, const std::string& key, std::vector<Augmentation>& result,
                  const ReportError& report) {
  if (!node.IsSequence()) {
    return report(node, key,
                  fmt::format("must be a list of {}, got {}", fmt::join(augment::kNames, ", "),
                              describe(node)));
  }
  if (node.size() > kMaxAugmentations) {
    return report(node, key, fmt::format("longer than {} entries", kMaxAugmentations));
  }
  result.clear();
  for (std::size_t i = 0; i < node.size(); ++i) {
    const YAML::Node entry = node[i];
    const std::string entry_key = fmt::format("{}[{}]", key, i);
    std::optional<Augmentation> augmentation;
    if (entry.IsScalar()) {
      const YAML::Node no_options(YAML::NodeType::Null);
      const ReportError at_entry = [&](const YAML::Node&, const std::string& at,
                                       const std::string& what) { report(entry, at, what); };
      augmentation = read_one(entry.Scalar(), no_options, entry_key, at_entry);
    } else if (entry.IsMap() && entry.size() == 1) {
      augmentation =
          read_one(entry.begin()->first.Scalar(), entry.begin()->second, entry_key, report);
    } else {
      report(entry, entry_key,
             fmt::format("must be {}, or one of them with its options", one_of(augment::kNames)));
    }
    if (augmentation) result.push_back(*augmentation);
  }
}

std::string augment_text(const std::vector<Augmentation>& augmentations) {
  std::vector<std::string> parts;
  for (const Augmentation& augmentation : augmentations) {
    OptionTexts options;
    std::visit([&](const auto& step) { step.visit_options(step, options); }, augmentation);
    const std::string_view name = augment::name_of(augmentation);
    parts.push_back(options.texts.empty()
                        ? std::string(name)
                        : fmt::format("{{{}: {{{}}}}}", name, fmt::join(options.texts, ", ")));
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace coxswain::contract
