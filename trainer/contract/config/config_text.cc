#include <fmt/format.h>

#include <algorithm>

#include "trainer/contract/config/config_fields.h"
#include "trainer/contract/config/config_reader.h"
#include "trainer/contract/config/config_rules.h"
#include "trainer/contract/config/config_value.h"

namespace coxswain::contract {

namespace {

std::map<std::string, std::string> values_of(const TrainerConfig& config, FieldKind kind) {
  std::map<std::string, std::string> values;
  for (const Field& field : kFields) {
    if (field.kind == kind) values.emplace(field.key, value_text(field, config));
  }
  return values;
}

// What the other keys are beside those that decide their defaults.
TrainerConfig defaults_beside(const TrainerConfig& config) {
  const TrainerConfig plain;
  TrainerConfig defaults;
  defaults.optimizer.name = config.optimizer.name;
  defaults.precision = config.precision;
  defaults.amp_level = config.amp_level;
  defaults.parameter_server.mode = config.parameter_server.mode;
  fill_defaults(defaults, {"precision", "parameterServer.mode"});
  if (config.steps) defaults.epochs.reset();
  defaults.optimizer.name = plain.optimizer.name;
  defaults.precision = plain.precision;
  defaults.amp_level = plain.amp_level;
  defaults.parameter_server.mode = plain.parameter_server.mode;
  return defaults;
}

std::string default_text(const Field& field) {
  if (!field.instead.empty()) return fmt::format("required, or `{}`", field.instead);
  if (field.required) return "required";
  if (!field.default_text.empty()) return std::string(field.default_text);
  const std::string value = value_text(field, TrainerConfig{});
  return fmt::format("`{}`", value);
}

std::string_view kind_text(FieldKind kind) {
  switch (kind) {
    case FieldKind::kIdentity:
      return "identity";
    case FieldKind::kTrajectory:
      return "trajectory";
    case FieldKind::kFree:
      return "free";
  }
  return "";
}

// What a value may be, and when the key means something.
std::string values_column(const Field& field) {
  std::string text;
  for (const std::string_view choice : choices_of(field)) {
    text += fmt::format("{}`{}`", text.empty() ? "" : ", ", choice);
  }
  if (text.empty()) text = expectation(field);
  if (!field.only_key.empty()) {
    std::string values;
    for (const std::string_view value : split_choices(field.only_values)) {
      values += fmt::format("{}`{}`", values.empty() ? "" : ", ", value);
    }
    text += fmt::format("; only with `{}` {}", field.only_key, values);
  }
  return text;
}

constexpr std::string_view kReferenceHead = R"(# Training configuration

The keys of `training:` in a TrainingJob, of a file given with `--config FILE`, and the flags of
`coxswain-trainer`: `optimizer: {lr: 0.05}` in YAML is `--optimizer.lr=0.05` as a flag. Flags win
over the file. `--print-config` prints every value in force and where it came from.

In a job the keys of `checkpoint` stand in `spec.checkpoint`, not in `training`.

What a resume does when a value differs from the checkpoint's: *identity* refuses (65),
*trajectory* goes on with a warning, *free* goes on.

A place in training is counted in samples and epochs. A resume with another batch goes on at the
next sample, trains what is left of the `epochs`, and is as far in its schedule as they are;
`steps` counts updates of any size.

| key | values | default | on resume | meaning |
|---|---|---|---|---|
)";

constexpr std::string_view kAugmentHead = R"(
## data.augment

A list, applied in order to each training image; `normalise` applies in evaluation too. Pixels are
0..1.

```yaml
data:
  format: cifar10
  augment:
  - pad-crop: {pad: 4, mode: zero, offsets: inclusive}
  - flip
  - normalise: {mean: [0.4914, 0.4822, 0.4465], std: [0.2023, 0.1994, 0.2010]}
```

)";

// Another key stands in its place.
bool is_replaced(const Field& field, const TrainerConfig& config) {
  if (field.instead.empty()) return false;
  return std::ranges::any_of(kFields, [&](const Field& other) {
    return other.key == field.instead && !value_text(other, config).empty();
  });
}

constexpr std::string_view kReferenceTail = R"(
## Not in this version

)";

}  // namespace

std::string to_yaml(const TrainerConfig& config) {
  const TrainerConfig defaults = defaults_beside(config);
  std::string yaml;
  std::string_view section;
  for (const Field& field : kFields) {
    const std::string value = value_text(field, config);
    if (value.empty() || is_replaced(field, config)) continue;
    if (!field.required && value == value_text(field, defaults)) continue;
    const std::size_t dot = field.key.find('.');
    const bool nested = dot != std::string_view::npos;
    const std::string_view parent = nested ? field.key.substr(0, dot) : "";
    if (nested && parent != section) yaml += fmt::format("{}:\n", parent);
    section = parent;
    yaml += fmt::format("{}{}: {}\n", nested ? "  " : "",
                        nested ? field.key.substr(dot + 1) : field.key, value);
  }
  return yaml;
}

std::string print_config(const ConfigResult& result) {
  std::string text;
  for (const Field& field : kFields) {
    if (!applies(field, result.config)) continue;
    const std::string value = value_text(field, result.config);
    const auto found = result.origins.find(std::string(field.key));
    std::string origin = found == result.origins.end() ? "default" : found->second;
    if (value.empty()) origin += fmt::format(": {}", field.default_text);
    text += fmt::format("{:<46}  # {}\n", fmt::format("{}: {}", field.key, value), origin);
  }
  return text;
}

std::map<std::string, std::string> identity(const TrainerConfig& config) {
  return values_of(config, FieldKind::kIdentity);
}

std::map<std::string, std::string> trajectory(const TrainerConfig& config) {
  return values_of(config, FieldKind::kTrajectory);
}

std::string configuration_reference() {
  std::string page(kReferenceHead);
  for (const Field& field : kFields) {
    page += fmt::format("| `{}` | {} | {} | {} | {} |\n", field.key, values_column(field),
                        default_text(field), kind_text(field.kind), field.doc);
  }
  page += kAugmentHead;
  page += augment::meanings();
  page += kReferenceTail;
  for (const Field& field : kFields) {
    for (const std::string_view later : split_choices(field.later)) {
      page += fmt::format("- `{}: {}`\n", field.key, later);
    }
  }
  return page;
}

}  // namespace coxswain::contract
