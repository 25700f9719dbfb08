#include "operator/job/training_parts.h"

#include <yaml-cpp/yaml.h>

#include "operator/job/job_reader.h"
#include "operator/job/yaml_scalar.h"
#include "trainer/contract/config/config_reader.h"

namespace coxswain::job {

namespace {

// Builds the node that the configuration's reader takes. A text that would read as something else
// is marked as quoted, so that "10" isn't taken for a number.
YAML::Node to_node(const Json& value) {
  YAML::Node node;
  if (value.is_object()) {
    node = YAML::Node(YAML::NodeType::Map);
    for (const auto& [key, inner] : value.items()) node[key] = to_node(inner);
  } else if (value.is_array()) {
    node = YAML::Node(YAML::NodeType::Sequence);
    for (const Json& inner : value) node.push_back(to_node(inner));
  } else if (value.is_string()) {
    node = YAML::Node(value.get<std::string>());
    node.SetTag(plain_scalar(value.get<std::string>()).is_string() ? "?" : "!");
  } else if (!value.is_null()) {
    node = YAML::Node(value.dump());
    node.SetTag("?");
  }
  return node;
}

Json checkpoint_part(const CheckpointPolicy& policy) {
  Json part = {{"everySeconds", policy.every_seconds},
               {"keep", policy.keep},
               {"resume", policy.resume},
               {"maxFailures", policy.max_failures}};
  if (policy.every_steps) part["everySteps"] = *policy.every_steps;
  return part;
}

}  // namespace

contract::TrainerConfig read_training_parts(const TrainingJob& job,
                                            std::vector<Problem>& problems) {
  std::vector<contract::ConfigError> errors;
  const contract::ConfigSource training{"", "spec.training.", true};
  auto config = contract::read_training(to_node(*job.spec.training), training, errors).config;
  const contract::ConfigSource checkpoint{"", "spec.checkpoint.", true};
  contract::read_checkpoint(to_node(checkpoint_part(job.spec.checkpoint)), checkpoint, config,
                            errors);
  for (const auto& error : errors)
    problems.push_back({error.key, line_of(job, error.key), error.message});
  return config;
}

}  // namespace coxswain::job
