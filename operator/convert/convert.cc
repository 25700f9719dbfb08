#include "operator/convert/convert.h"

#include <algorithm>

#include "operator/job/validation.h"
#include "operator/job/yaml.h"

namespace coxswain::convert {

namespace {

// What `value` says that `usual` doesn't; null: nothing.
Json beyond(const Json& value, const Json& usual) {
  if (value == usual) return {};
  if (!value.is_object() || !usual.is_object()) return value;
  Json rest = Json::object();
  for (const auto& [key, inner] : value.items()) {
    Json more = usual.contains(key) ? beyond(inner, usual.at(key)) : inner;
    if (!more.is_null()) rest[key] = std::move(more);
  }
  if (rest.empty()) return {};
  return rest;
}

Json claim(const std::string& name) {
  return {
      {"apiVersion", "v1"},
      {"kind", "PersistentVolumeClaim"},
      {"metadata", {{"name", name}}},
      {"spec",
       {{"accessModes", {"ReadWriteOnce"}}, {"resources", {{"requests", {{"storage", "1Gi"}}}}}}}};
}

// A model is worth keeping.
void keep_checkpoints(Draft& draft) {
  if (!draft.find("training") || draft.find("volumes.checkpoints")) return;
  const std::string name = draft.name + "-checkpoints";
  draft.put("volumes.checkpoints", Json{{"persistentVolumeClaim", {{"claimName", name}}}});
  draft.companions.push_back(claim(name));
}

}  // namespace

Converted finish(Draft draft, const Request& request) {
  if (!request.name.empty()) draft.name = request.name;
  keep_checkpoints(draft);
  Converted result{
      .job = to_job(draft), .companions = draft.companions, .notes = draft.notes(), .problems = {}};
  if (!draft.spec().empty()) result.problems = job::validate(result.job, {});
  return result;
}

bool is_whole(const Converted& converted) {
  const auto lost = [](const Note& note) { return note.outcome == Outcome::kNoPlace; };
  return converted.problems.empty() && std::ranges::none_of(converted.notes, lost);
}

std::string to_yaml(const Converted& converted) {
  std::string text;
  for (const Json& one : converted.companions) text += job::to_yaml(one) + "---\n";
  const Json written = job::to_json(converted.job);
  const Json usual = job::to_json(job::TrainingJob{});
  Json job = {{"apiVersion", written.at("apiVersion")},
              {"kind", written.at("kind")},
              {"metadata", beyond(written.at("metadata"), usual.at("metadata"))},
              {"spec", beyond(written.at("spec"), usual.at("spec"))}};
  return text + job::to_yaml(job);
}

}  // namespace coxswain::convert
