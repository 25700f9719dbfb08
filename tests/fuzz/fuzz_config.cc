#include <cstdlib>
#include <string_view>

#include "trainer/contract/config/config_reader.h"
#include "trainer/contract/config/yaml_text.h"
#include "trainer/contract/error.h"

namespace {

using namespace coxswain;

// What is accepted says the same once it is written and read again.
void read_as_file(std::string_view text) {
  try {
    const contract::TrainerConfig config = contract::read_config(text, "input", {}).config;
    const std::string yaml = contract::to_yaml(config);
    if (contract::read_config(yaml, "again", {}).config != config) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) std::abort();
  }
}

// Every error of a job's section has a line, and nothing is thrown.
void read_as_job(std::string_view text) {
  YAML::Node node;
  try {
    node = contract::load_yaml(text, "input");
  } catch (const Error&) {
    return;
  }
  std::vector<contract::ConfigError> errors;
  contract::read_training(node, {.file = "input", .prefix = "spec.", .in_job = true}, errors);
  for (const contract::ConfigError& error : errors) {
    if (error.line < 1 || error.column < 1 || error.message.empty()) std::abort();
  }
}

}  // namespace

// Any bytes are a configuration or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(input), size);
  read_as_file(text);
  read_as_job(text);
  return 0;
}
