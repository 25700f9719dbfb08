#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <span>
#include <string>

#include "trainer/contract/config/field.h"

namespace coxswain::contract {

// Told what is wrong with which key, and where.
using ReportError =
    std::function<void(const YAML::Node& node, const std::string& key, const std::string& what)>;

// Checks type and range of `node`, and stores it in the field's member.
void read_value(const Field& field, const YAML::Node& node, TrainerConfig& config,
                const ReportError& report);

// The value as YAML in one line; empty for an optional without value.
std::string value_text(const Field& field, const TrainerConfig& config);

// "an integer, 1..64": what a value of this field must be.
std::string expectation(const Field& field);

// data.augment: a list of `flip` and of {pad-crop: {...}}, {normalise: {...}}.
void read_augment(const YAML::Node& node, const std::string& key,
                  std::vector<augment::Augmentation>& result, const ReportError& report);
std::string augment_text(const std::vector<augment::Augmentation>& augmentations);

// A finite number, or why it is none.
struct ParsedNumber {
  double value = 0;
  std::string problem;
};
ParsedNumber parse_number(const YAML::Node& node);

// "text", "nothing", "a list" or "a mapping" of a node, for "got ...".
std::string describe(const YAML::Node& node);

// "0.1" as short as it reads back.
std::string number_text(double value);

// "one of a, b, c"
std::string one_of(std::span<const std::string_view> words);

}  // namespace coxswain::contract
