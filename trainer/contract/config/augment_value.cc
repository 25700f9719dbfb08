#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "trainer/contract/config/config_fields.h"
#include "trainer/contract/config/config_value.h"
#include "trainer/contract/config/overload.h"
#include "trainer/contract/config/text.h"

namespace coxswain::contract {

namespace {

constexpr std::size_t kMaxAugmentations = 16;
constexpr std::string_view kNames = "pad-crop|flip|normalise";

// Reads the options of one augmentation; remembers whether anything was wrong.
class OptionReader {
 public:
  OptionReader(const YAML::Node& options, std::string key, const ReportError& report)
      : options_(options), key_(std::move(key)), report_(report) {}

  bool ok() const { return ok_; }

  void fail(const YAML::Node& node, const std::string& name, const std::string& what) {
    report_(node, name.empty() ? key_ : fmt::format("{}.{}", key_, name), what);
    ok_ = false;
  }

  // Refuses every option that is none of `names`.
  void know(std::string_view names) {
    if (options_.IsNull()) return;
    if (!options_.IsMap()) {
      fail(options_, "", fmt::format("must be a mapping, got {}", describe(options_)));
      return;
    }
    const auto known = split_choices(names);
    for (const auto& option : options_) {
      const std::string name = option.first.Scalar();
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        fail(option.first, "", fmt::format("unknown option {}; {}", quote(name), one_of(known)));
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

  // A list of finite numbers, each above `min`.
  void numbers(const std::string& name, double min, std::vector<double>& values) {
    const YAML::Node node = option(name);
    if (!node.IsDefined() || !node.IsSequence() || node.size() == 0 || node.size() > 4096) {
      fail(node.IsDefined() ? node : options_, name, "must be a list of numbers, one a channel");
      return;
    }
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

  const YAML::Node options_;
  std::string key_;
  const ReportError& report_;
  bool ok_ = true;
};

std::optional<Augmentation> read_one(const std::string& name, const YAML::Node& options,
                                     const std::string& key, const ReportError& report) {
  OptionReader reader(options, key, report);
  Augmentation result = Flip{};
  if (name == "pad-crop") {
    PadCrop pad_crop;
    reader.know("pad|mode|offsets");
    reader.integer("pad", 1, 4096, pad_crop.pad);
    reader.choice("mode", pad_crop.mode);
    reader.choice("offsets", pad_crop.offsets);
    result = pad_crop;
  } else if (name == "flip") {
    if (!options.IsNull()) reader.fail(options, "", "takes no options");
  } else if (name == "normalise") {
    Normalise normalise;
    reader.know("mean|std");
    reader.numbers("mean", -1e6, normalise.mean);
    reader.numbers("std", 0, normalise.std);
    result = normalise;
  } else {
    reader.fail(options, "",
                fmt::format("unknown augmentation; {}", one_of(split_choices(kNames))));
  }
  return reader.ok() ? std::optional(result) : std::nullopt;
}

}  // namespace

void read_augment(const YAML::Node& node, const std::string& key, std::vector<Augmentation>& result,
                  const ReportError& report) {
  if (!node.IsSequence()) {
    return report(
        node, key,
        fmt::format("must be a list of pad-crop, flip, normalise, got {}", describe(node)));
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
      augmentation = read_one(entry.Scalar(), no_options,
                              fmt::format("{}.{}", entry_key, entry.Scalar()), at_entry);
    } else if (entry.IsMap() && entry.size() == 1) {
      const std::string name = entry.begin()->first.Scalar();
      augmentation =
          read_one(name, entry.begin()->second, fmt::format("{}.{}", entry_key, name), report);
    } else {
      report(entry, entry_key,
             fmt::format("must be {}, or one of them with its options",
                         one_of(split_choices(kNames))));
    }
    if (augmentation) result.push_back(*augmentation);
  }
}

std::string augment_text(const std::vector<Augmentation>& augmentations) {
  const auto list = [](const std::vector<double>& values) {
    std::vector<std::string> parts;
    for (const double value : values) parts.push_back(number_text(value));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  };
  std::vector<std::string> parts;
  for (const Augmentation& augmentation : augmentations) {
    parts.push_back(std::visit(
        Overload{
            [](const PadCrop& step) {
              return fmt::format("{{pad-crop: {{pad: {}, mode: {}, offsets: {}}}}}", step.pad,
                                 word(words_of(step.mode), step.mode),
                                 word(words_of(step.offsets), step.offsets));
            },
            [](const Flip&) { return std::string("flip"); },
            [&](const Normalise& step) {
              return fmt::format("{{normalise: {{mean: {}, std: {}}}}}", list(step.mean),
                                 list(step.std));
            },
        },
        augmentation));
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace coxswain::contract
