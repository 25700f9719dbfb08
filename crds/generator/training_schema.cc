#include "crds/generator/training_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "trainer/contract/config/config_fields.h"
#include "trainer/contract/config/overload.h"

namespace coxswain::crd {

namespace {

using contract::Field;

// The API server holds integers in 64 bits with a sign, and limits as doubles: the greatest below.
constexpr double kGreatest = 9223372036854774784.0;

// What each group of keys is about.
constexpr auto kSections = std::to_array<std::pair<std::string_view, const char*>>({
    {"data", "What is read, by whom, and how it is changed."},
    {"optimizer", "The rule by which weights follow gradients, and its parameters."},
    {"ema", "The average of the weights that is evaluated."},
    {"lrSchedule", "How the learning rate changes over the run."},
    {"loss", "Cross-entropy, and what is done to it."},
    {"communication", "What carries gradients between ranks."},
    {"parameterServer", "How ranks train with strategy ParameterServer."},
    {"evaluate", "When the test images are scored."},
    {"metrics", "What is counted beside the loss and the accuracy."},
    {"earlyStopping", "When training ends before its last epoch."},
    {"nonFinite", "What follows when the loss or a gradient is not finite."},
    {"report", "What is said, and how often."},
});

Json new_section(std::string_view name) {
  Json schema = {{"type", "object"}, {kKeepUnknown, true}};
  for (const auto& [section, meaning] : kSections)
    if (section == name) return described(meaning, schema);
  throw std::logic_error("no meaning for the section " + std::string(name));
}

std::string joined(std::string_view choices) {
  std::string text;
  for (const auto choice : contract::split_choices(choices))
    text.append(text.empty() ? "" : ", ").append(choice);
  return text;
}

std::string meaning(const Field& field) {
  std::string text(field.doc);
  if (!field.default_text.empty()) text += fmt::format(" Default: {}.", field.default_text);
  if (!field.only_key.empty())
    text += fmt::format(" Only with {} {}.", field.only_key, joined(field.only_values));
  if (!field.later.empty()) text += fmt::format(" Not in this version: {}.", joined(field.later));
  return text;
}

// Whole numbers print as such: 1000000, not 1e+06.
Json limit(double value) {
  const double capped = std::min(value, kGreatest);
  if (capped == std::floor(capped)) return static_cast<std::int64_t>(capped);
  return capped;
}

Json numeric(const Field& field, const char* type) {
  Json schema = {{"type", type}, {"minimum", limit(field.min)}, {"maximum", limit(field.max)}};
  if (field.above_min) schema["exclusiveMinimum"] = true;
  if (field.below_max) schema["exclusiveMaximum"] = true;
  return schema;
}

Json whole(const Field& field) {
  if (!field.words.empty()) return {{kIntOrString, true}};
  return numeric(field, "integer");
}

Json number(const Field& field) {
  if (!field.words.empty()) return {{kKeepUnknown, true}};  // a number or a word
  return numeric(field, "number");
}

Json choice(const Field& field) {
  Json schema = {{"type", "string"}};
  for (const auto word : contract::choices_of(field)) schema["enum"].push_back(word);
  return schema;
}

Json list_of(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }

Json value_schema(const Field& field) {
  contract::TrainerConfig config;
  return std::visit(
      contract::Overload{
          [](bool*) -> Json { return {{"type", "boolean"}}; },
          [&](std::int64_t*) { return whole(field); },
          [&](std::optional<std::int64_t>*) { return whole(field); },
          [&](std::uint64_t*) { return whole(field); },
          [&](double*) { return number(field); },
          [&](std::optional<double>*) { return number(field); },
          [](std::string*) -> Json { return {{"type", "string"}}; },
          [&](std::vector<std::int64_t>*) { return list_of(numeric(field, "integer")); },
          [&](std::vector<double>*) { return list_of(numeric(field, "number")); },
          [](std::vector<std::string>*) { return list_of({{"type", "string"}}); },
          // A word, or an object with one word as its key.
          [](std::vector<augment::Augmentation>*) { return list_of({{kKeepUnknown, true}}); },
          [&](const contract::ChoiceRef&) { return choice(field); },
      },
      field.member(config));
}

void require(Json& object, const std::string& name) {
  Json& names = object["required"];
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// The object that holds the last part of the key, made where it is missing.
Json& section(Json& root, std::string_view key, bool required) {
  Json* at = &root;
  for (std::size_t dot = key.find('.'); dot != key.npos; dot = key.find('.')) {
    const std::string name(key.substr(0, dot));
    key.remove_prefix(dot + 1);
    if (required) require(*at, name);
    Json& inner = (*at)["properties"][name];
    if (inner.is_null()) inner = new_section(name);
    at = &inner;
  }
  return *at;
}

}  // namespace

Json training_schema() {
  Json root = described(
      "What is trained, and how: the keys of docs/training-configuration.md, where each default "
      "stands. Without it the template's own command runs, with our environment.",
      {{"type", "object"}, {kKeepUnknown, true}});
  for (const Field& field : contract::kFields) {
    if (field.key.starts_with("checkpoint.")) continue;  // spec.checkpoint
    Json& at = section(root, field.key, field.required);
    const std::string name(field.key.substr(field.key.rfind('.') + 1));
    at["properties"][name] = described(meaning(field), value_schema(field));
    if (field.required && field.instead.empty()) require(at, name);
  }
  return with_rules(std::move(root), {{.rule = "has(self.model) != has(self.modelFile)",
                                       .message = "must have model, or modelFile in its place"}});
}

}  // namespace coxswain::crd
