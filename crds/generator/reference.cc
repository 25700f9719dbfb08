#include "crds/generator/reference.h"

#include <fmt/format.h>

#include <cstdint>

namespace coxswain::crd {

namespace {

std::string values(const Json& schema) {
  if (schema.contains(kIntOrString)) return "an integer or a word";
  if (schema.contains("enum")) {
    std::string words;
    for (const auto& word : schema.at("enum"))
      words += fmt::format("{}`{}`", words.empty() ? "" : ", ", word.get<std::string>());
    return words;
  }
  const auto type = schema.value("type", "");
  if (type == "integer") {
    const auto min = schema.at("minimum").get<std::int64_t>();
    const auto max = schema.at("maximum").get<std::int64_t>();
    return max == INT32_MAX ? fmt::format("an integer, at least {}", min)
                            : fmt::format("an integer, {}..{}", min, max);
  }
  if (type == "array") return "a list, each: " + values(schema.at("items"));
  if (type == "boolean") return "true or false";
  return type == "string" ? "text" : "an object";
}

// Of what is described elsewhere the field itself is named, and none within it.
void add_fields(const Json& schema, const std::string& path, std::string& page) {
  if (!schema.contains("properties")) return;
  const auto is_required = [&](const std::string& key) {
    for (const auto& name : schema.value("required", Json::array()))
      if (name == key) return true;
    return false;
  };
  for (const auto& [key, field] : schema.at("properties").items()) {
    const std::string name = path + key;
    page += fmt::format("| `{}` | {}{} | {} |\n", name, values(field),
                        is_required(key) ? ", required" : "",
                        field.at("description").get<std::string>());
    if (key == "template" || key == "training" || path == "volumes.") continue;
    add_fields(field.contains("items") ? field.at("items") : field, name + ".", page);
  }
}

}  // namespace

std::string spec_reference(const Json& schema) {
  std::string page =
      "# Fields of a job\n\n"
      "Every field of a TrainingJob's `spec`, as `kubectl explain tj.spec` tells them;\n"
      "[contract.md](contract.md#the-trainingjob) has the smallest job and an outline. Generated "
      "from the\ntable in `operator/job/spec.h`.\n\n"
      "| field | values | meaning |\n|---|---|---|\n";
  add_fields(schema, "", page);
  return page;
}

}  // namespace coxswain::crd
