#include "crds/generator/crd.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <sstream>

#include "crds/generator/reference.h"
#include "crds/generator/yaml_writer.h"
#include "operator/job/job_reader.h"
#include "operator/job/status.h"
#include "tests/support/test_flags.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::crd {

namespace {

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string generated() { return crd_text(file_text("crds/generator/kubernetes.json")); }

// The scalars that YAML reads, all as texts, in JSON's structure.
Json texts(const YAML::Node& node) {
  if (node.IsScalar()) return node.Scalar();
  Json value = node.IsMap() ? Json::object() : Json::array();
  for (const auto& entry : node) {
    if (node.IsMap())
      value[entry.first.Scalar()] = texts(entry.second);
    else
      value.push_back(texts(entry));
  }
  return value;
}

Json texts(const Json& node) {
  if (node.is_string()) return node;
  if (!node.is_structured()) return node.dump();
  Json value = node.is_object() ? Json::object() : Json::array();
  for (const auto& [key, inner] : node.items()) {
    if (node.is_object())
      value[key] = texts(inner);
    else
      value.push_back(texts(inner));
  }
  return value;
}

Json root_schema() {
  const Json kubernetes = Json::parse(file_text("crds/generator/kubernetes.json"));
  return training_job_crd(kubernetes)["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
}

// Every field of the value has its place in the schema.
void expect_covered(const job::Json& value, const Json& schema, const std::string& path) {
  if (value.is_array()) {
    for (const auto& item : value) expect_covered(item, schema.at("items"), path + "[]");
    return;
  }
  if (!value.is_object() || !schema.contains("properties")) return;
  for (const auto& [key, inner] : value.items()) {
    const std::string inner_path = path + "." + key;
    ASSERT_TRUE(schema.at("properties").contains(key)) << inner_path << " is not in the schema";
    expect_covered(inner, schema.at("properties").at(key), inner_path);
  }
}

// The ways to every object with fields whose first, or any of whose fields, says nothing.
void expect_described(const Json& schema, const std::string& path) {
  if (path.ends_with(".template") || path.starts_with("spec.volumes.")) return;  // Kubernetes'
  if (schema.contains("properties"))
    for (const auto& [key, field] : schema.at("properties").items()) {
      EXPECT_TRUE(field.contains("description")) << path << "." << key << " says nothing";
      expect_described(field, path + "." + key);
    }
  if (schema.contains("items")) expect_described(schema.at("items"), path);
}

}  // namespace

TEST(Crd, committed_file_is_what_is_generated) {
  const std::string path = "crds/trainingjobs.yaml";
  if (test::flags().rewrite) std::ofstream(path, std::ios::binary) << generated();
  EXPECT_TRUE(file_text(path) == generated()) << "run crds/generate, and commit what it changes";
}

TEST(Crd, documented_fields_are_those_of_the_schema) {
  const std::string path = "docs/job-fields.md";
  const std::string page = spec_reference(root_schema().at("properties").at("spec"));
  if (test::flags().rewrite) std::ofstream(path, std::ios::binary) << page;
  EXPECT_EQ(file_text(path), page) << "run with --rewrite";
}

// kubectl keeps a copy in an annotation, which may hold 256 KiB.
TEST(Crd, is_small_enough_for_kubectl_apply) { EXPECT_LT(generated().size(), 250u * 1024u); }

TEST(Crd, reads_back_as_it_was_made) {
  const Json kubernetes = Json::parse(file_text("crds/generator/kubernetes.json"));
  EXPECT_EQ(texts(YAML::Load(generated())), texts(training_job_crd(kubernetes)));
}

TEST(Crd, lines_are_at_most_100_columns) {
  std::istringstream lines(generated());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(Crd, explains_every_field_of_ours) {
  const Json schema = root_schema();
  for (const char* part : {"spec", "status"})
    expect_described(schema.at("properties").at(part), part);
}

TEST(Crd, holds_every_field_of_a_status) {
  using namespace job;
  Status status;
  const Time time = *parse_rfc3339("2026-01-31T12:00:01Z");
  status.phase = Phase::kRestarting;
  status.image = "trainer:1";
  status.backoff_step = 2;
  status.attempt_start_time = status.next_retry_time = time;
  status.start_time = status.completion_time = time;
  status.succeeded_ranks = "0-3";
  status.last_failure = Failure{time, 2, Role::kServer, 1, 5, "p", "n", 137, "x", "Load", "m"};
  status.replacements = {{Role::kServer, 1, 2, true}};
  status.replicas = {{Role::kWorker, {}}, {Role::kServer, {}}, {Role::kScheduler, {}}};
  status.progress = {1, 2, 3, 4, 0.5, 0.9, 15.0, 6.0, 2, 0.95, "t"};
  status.checkpoint = CheckpointStatus{1200, "t", "p", 99};
  status.conditions.push_back({"Running", true, "AllReady", "every rank", time, 3});
  status.selector = "a=b";
  expect_covered(to_json(status), root_schema().at("properties").at("status"), "status");
}

TEST(YamlWriter, quotes_what_yaml_would_take_for_something_else) {
  const Json value = {{"a", "true"}, {"b", "1"}, {"c", ""},      {"d", "x: y"},  {"e", "plain"},
                      {"f", "No"},   {"g", 1},   {"h", "a#b,c"}, {"i", "\"q\n"}, {"j", true}};
  const YAML::Node node = YAML::Load(to_yaml(value));
  EXPECT_EQ(texts(node), texts(value));
  EXPECT_EQ(to_yaml(Json{{"a", "true"}, {"e", "plain"}, {"g", 1}}),
            "a: \"true\"\ne: plain\ng: 1\n");
  for (const char* text : {"true", "No", "1", ""})
    EXPECT_EQ(YAML::Load(to_yaml(Json{{"k", text}}))["k"].Tag(), "!") << text;  // quoted
}

TEST(YamlWriter, folds_long_texts_without_loss) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "word" + std::to_string(i) + " ";
  for (const std::string& value : {text + "end", text, "  " + text + "end", text + "\n" + text}) {
    const Json wrapped = {{"a", {{"b", value}}}};
    EXPECT_EQ(YAML::Load(to_yaml(wrapped))["a"]["b"].Scalar(), value);
  }
}

}  // namespace coxswain::crd
