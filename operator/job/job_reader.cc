#include "operator/job/job_reader.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>

#include "operator/job/json_fields.h"
#include "operator/job/status.h"
#include "operator/job/yaml.h"
#include "trainer/contract/config/config_reader.h"
#include "trainer/contract/config/yaml_text.h"
#include "trainer/contract/error.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::job {

namespace {

// Copies a YAML node into JSON, and notes the line of each path.
Json to_json(const YAML::Node& node, const std::string& path, std::map<std::string, int>& lines) {
  lines.emplace(path, node.Mark().line + 1);
  if (node.IsSequence()) {
    Json list = Json::array();
    for (std::size_t i = 0; i < node.size(); ++i)
      list.push_back(to_json(node[i], fmt::format("{}[{}]", path, i), lines));
    return list;
  }
  if (node.IsMap()) {
    Json object = Json::object();
    for (const auto& entry : node) {
      const std::string key = entry.first.Scalar();
      const std::string inner = path.empty() ? key : path + "." + key;
      lines.emplace(inner, entry.first.Mark().line + 1);
      object[key] = to_json(entry.second, inner, lines);
    }
    return object;
  }
  if (node.IsNull()) return nullptr;
  return node.Tag() == "?" ? plain_scalar(node.Scalar()) : Json(node.Scalar());
}

// JSON is stricter than the YAML that contains it: no comment, no trailing comma, no bare word.
void check_json(std::string_view text, const std::string& source_name) {
  try {
    [[maybe_unused]] const Json parsed = Json::parse(text);
  } catch (const Json::parse_error& error) {
    const std::string_view before = text.substr(0, error.byte > 0 ? error.byte - 1 : 0);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t line_start = before.find_last_of('\n') + 1;
    throw Error(ExitCode::kBadInput,
                fmt::format("{}:{}:{}: not JSON: unexpected character or end", source_name, line,
                            before.size() - line_start + 1));
  }
}

template <class Owner, class Table>
void read_fields(JsonFields& fields, Owner& owner, const Table& table);

template <class T, class Table>
void read_object(const Json& value, const std::string& path, std::vector<Problem>& problems,
                 const Table& table, T& target) {
  JsonFields fields(value, path, problems);
  read_fields(fields, target, table);
}

template <class T, class Table>
void read_object(const Json& value, const std::string& path, std::vector<Problem>& problems,
                 const Table& table, std::optional<T>& target) {
  read_object(value, path, problems, table, target.emplace());
}

template <class Owner, class Member>
void read_row(JsonFields& fields, Owner& owner, const Field<Owner, Member>& row) {
  fields.read(row.key, owner.*row.member, row.about);
}

template <class Owner, class T, class Table>
void read_row(JsonFields& fields, Owner& owner, const Object<Owner, T, Table>& row) {
  if (const Json* value = fields.find(row.key))
    read_object(*value, fields.path_of(row.key), fields.problems(), row.fields, owner.*row.member);
}

template <class Owner, class T, class Table>
void read_row(JsonFields& fields, Owner& owner, const Object<Owner, std::vector<T>, Table>& row) {
  for (const auto& [value, path] : fields.elements(row.key))
    read_object(value, path, fields.problems(), row.fields, (owner.*row.member).emplace_back());
}

template <class Owner, class Table>
void read_row(JsonFields& fields, Owner& owner, const Group<Table>& row) {
  if (const Json* value = fields.find(row.key))
    read_object(*value, fields.path_of(row.key), fields.problems(), row.fields, owner);
}

template <class Owner, class Table>
void read_fields(JsonFields& fields, Owner& owner, const Table& table) {
  for_each_row(table, [&](const auto& row) {
    if (row.about.required) fields.require(row.key);
    read_row(fields, owner, row);
  });
  fields.refuse_unknown();
}

Spec read_spec(const Json& value, std::vector<Problem>& problems) {
  Spec spec;
  read_object(value, "spec", problems, kSpecFields, spec);
  // As many servers as workers, unless the job says how many.
  if (spec.strategy == Strategy::kParameterServer && !spec.server)
    spec.server = ReplicaSpec{spec.worker.replicas, {}};
  return spec;
}

void read_metadata(const Json& value, Metadata& metadata, std::vector<Problem>& problems) {
  JsonFields fields(value, "metadata", problems);
  std::string prefix;
  fields.read("generateName", prefix);
  if (prefix.empty()) fields.require("name");
  if (!prefix.empty()) metadata.name = prefix + "00000";  // as many letters as the API server adds
  fields.read("name", metadata.name);
  fields.read("namespace", metadata.name_space);
  fields.read("uid", metadata.uid);
  fields.read("resourceVersion", metadata.resource_version);
  fields.read("generation", metadata.generation);
  const auto read_time = [&](const char* key, std::optional<Time>& target) {
    std::string text;
    fields.read(key, text);
    target = parse_rfc3339(text);
  };
  read_time("creationTimestamp", metadata.creation_time);
  read_time("deletionTimestamp", metadata.deletion_time);
}

void require_word(JsonFields& fields, const char* key, const std::string& expected) {
  const Json* value = fields.require(key);
  if (value && *value != expected)
    fields.refuse(key, fmt::format("must be {}, got {}", expected, describe(*value)));
}

bool is_job(const YAML::Node& document) {
  if (!document.IsMap()) return false;
  const YAML::Node kind = document["kind"];
  return kind.IsDefined() && kind.IsScalar() && kind.Scalar() == kKind;
}

// The file that kubectl takes may hold other objects too, as the job's volume.
YAML::Node job_among(const std::vector<YAML::Node>& documents, const std::string& source_name) {
  if (documents.empty()) return YAML::Node();
  if (documents.size() == 1) return documents.front();
  const auto job = std::find_if(documents.begin(), documents.end(), is_job);
  if (job == documents.end())
    throw Error(ExitCode::kBadInput, fmt::format("{}: none of its {} documents is a TrainingJob",
                                                 source_name, documents.size()));
  const auto second = std::find_if(std::next(job), documents.end(), is_job);
  if (second != documents.end())
    throw Error(ExitCode::kBadInput,
                fmt::format("{}:{}: a second TrainingJob; write each into a file of its own",
                            source_name, second->Mark().line + 1));
  return *job;
}

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
    const bool has_word = !value.is_number_float() || std::isfinite(value.get<double>());
    node = YAML::Node(has_word ? value.dump() : ".inf or .nan");
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
  if (policy.every_epochs) part["everyEpochs"] = *policy.every_epochs;
  if (policy.keep_epochs == 0) part["keepEpochs"] = "all";
  if (policy.keep_epochs > 0) part["keepEpochs"] = *policy.keep_epochs;
  if (policy.best != KeptBest::kNone) part["best"] = word(policy.best);
  if (policy.from && policy.from->epoch) part["from"]["epoch"] = *policy.from->epoch;
  if (policy.from && policy.from->step) part["from"]["step"] = *policy.from->step;
  if (policy.from && policy.from->path) part["from"]["path"] = *policy.from->path;
  return part;
}

}  // namespace

JobDocument read_document(std::string_view text, const std::string& source_name) {
  const std::vector<YAML::Node> documents = contract::load_yaml_documents(text, source_name);
  const YAML::Node node = job_among(documents, source_name);
  if (source_name.ends_with(".json")) check_json(text, source_name);
  if (!node.IsDefined() || node.IsNull())
    throw Error(ExitCode::kBadInput, source_name + ": no document; write a TrainingJob");
  if (!node.IsMap())
    throw Error(ExitCode::kBadInput, source_name + ": no TrainingJob: must be an object");
  JobDocument document;
  document.object = to_json(node, "", document.lines);
  std::map<std::string, int> unused;
  for (const YAML::Node& other : documents)
    if (!other.is(node)) document.companions.push_back(to_json(other, "", unused));
  return document;
}

std::vector<JobDocument> read_documents(std::string_view text, const std::string& source_name) {
  if (source_name.ends_with(".json")) check_json(text, source_name);
  std::vector<JobDocument> documents;
  for (const YAML::Node& node : contract::load_yaml_documents(text, source_name)) {
    if (!node.IsDefined() || node.IsNull()) continue;
    JobDocument& document = documents.emplace_back();
    document.object = to_json(node, "", document.lines);
  }
  return documents;
}

TrainingJob read_job(const JobDocument& document) {
  TrainingJob job = read_job(document.object);
  job.lines = document.lines;
  for (Problem& problem : job.problems) problem.line = line_of(job, problem.path);
  return job;
}

TrainingJob read_job(std::string_view text, const std::string& source_name) {
  return read_job(read_document(text, source_name));
}

TrainingJob read_job(const Json& object) {
  TrainingJob job;
  JsonFields fields(object, "", job.problems);
  require_word(fields, "apiVersion", kApiVersion);
  require_word(fields, "kind", kKind);
  if (const Json* metadata = fields.require("metadata"))
    read_metadata(*metadata, job.metadata, job.problems);
  if (const Json* spec = fields.require("spec")) job.spec = read_spec(*spec, job.problems);
  if (const Json* status = fields.find("status")) job.status = read_status(*status);
  fields.refuse_unknown();
  return job;
}

int line_of(const TrainingJob& job, std::string path) {
  while (true) {
    if (const auto found = job.lines.find(path); found != job.lines.end()) return found->second;
    if (path.empty()) return 0;
    const std::size_t cut = path.find_last_of(".[");
    path.resize(cut == std::string::npos ? 0 : cut);
  }
}

Json to_json(const TrainingJob& job) {
  Json metadata = {{"name", job.metadata.name}, {"namespace", job.metadata.name_space}};
  if (!job.metadata.uid.empty()) metadata["uid"] = job.metadata.uid;
  if (!job.metadata.resource_version.empty())
    metadata["resourceVersion"] = job.metadata.resource_version;
  if (job.metadata.generation > 0) metadata["generation"] = job.metadata.generation;
  if (job.metadata.creation_time)
    metadata["creationTimestamp"] = to_rfc3339(*job.metadata.creation_time);
  if (job.metadata.deletion_time)
    metadata["deletionTimestamp"] = to_rfc3339(*job.metadata.deletion_time);
  return {{"apiVersion", kApiVersion},
          {"kind", kKind},
          {"metadata", metadata},
          {"spec", write_fields(job.spec, kSpecFields)},
          {"status", to_json(job.status)}};
}

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
