#pragma once

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/contract/config/trainer_config.h"
#include "trainer/contract/error.h"

namespace coxswain::contract {

// Value. One thing wrong with a configuration.
struct ConfigError {
  std::string key;  // with the source's prefix: "spec.training.optimizer.lr"
  int line = 0;     // from 1; 0: not from a file
  int column = 0;
  std::string message;  // "must be an integer, got \"x\""
  bool operator==(const ConfigError&) const = default;
};

// "job.yaml:12:5: spec.training.batchSize: must be ..." without the file when it is empty.
std::string to_text(const ConfigError& error, const std::string& file);

// Where a YAML node comes from, for messages.
struct ConfigSource {
  std::string file;     // "job.yaml"
  std::string prefix;   // "spec.training." within a job, else empty
  bool in_job = false;  // `checkpoint` is then refused: the job has its own section for it
};

// Value. A configuration and where each value came from.
struct ConfigResult {
  TrainerConfig config;
  std::map<std::string, std::string>
      origins;  // key -> "job.yaml:12" or "flag"; other keys: default
};

// Reads `training` and adds everything that is wrong with it to `errors`, in the order of the file;
// the result is meaningful only when nothing was added. Never throws for what a user wrote.
ConfigResult read_training(const YAML::Node& node, const ConfigSource& source,
                           std::vector<ConfigError>& errors);

// Reads a job's spec.checkpoint (everySteps, everyEpochs, everySeconds, keep, resume,
// maxFailures) into config.checkpoint.
void read_checkpoint(const YAML::Node& node, const ConfigSource& source, TrainerConfig& config,
                     std::vector<ConfigError>& errors);

// Value. --optimizer.lr=0.1
struct ConfigFlag {
  std::string key;
  std::string value;
};

// Takes "--key=value" and "--key value" of the table's keys ("--key" alone for booleans). Throws
// Error (2) for an unknown flag, naming the nearest, a missing value, or one key with two values.
std::vector<ConfigFlag> parse_config_flags(const std::vector<std::string>& arguments);

// The configuration of a YAML text with flags over it. Throws Error with the first thing that is
// wrong and how many there are: 65 from the file, 2 from a flag. An empty text is an empty
// configuration.
ConfigResult read_config(std::string_view yaml, const std::string& file_name,
                         const std::vector<ConfigFlag>& flags);
ConfigResult read_config_file(const std::filesystem::path& file,
                              const std::vector<ConfigFlag>& flags);

// YAML of every value that differs from its default: read_config(to_yaml(c)) == c. What the
// operator hands to the ranks as training.yaml.
std::string to_yaml(const TrainerConfig& config);

// Every value in force and where it came from, a line each: "optimizer.lr: 0.05  # job.yaml:12".
std::string print_config(const ConfigResult& result);

// Keys whose change a resume refuses, and keys whose change it warns of (docs/design.md, "What a
// resume needs"), as text.
std::map<std::string, std::string> identity(const TrainerConfig& config);
std::map<std::string, std::string> trajectory(const TrainerConfig& config);

// docs/training-configuration.md, from the table.
std::string configuration_reference();

}  // namespace coxswain::contract
