#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "crds/generator/crd.h"
#include "operator/job/job_reader.h"
#include "operator/job/validation.h"
#include "tests/operator/job/job_fixtures.h"
#include "trainer/contract/config/config_fields.h"

// What the API server's schema takes, the operator takes, and nothing more.
namespace coxswain::crd {

namespace {

// A field of the schema, and where it stands: "/spec/runPolicy/backoffLimit".
using Visit = std::function<void(const std::string& pointer, const Json& schema)>;

bool is_foreign(const std::string& pointer) {
  return pointer.ends_with("/template") || pointer.starts_with("/spec/volumes/");
}

void each_field(const Json& schema, const std::string& pointer, const Visit& visit) {
  if (is_foreign(pointer)) return;
  visit(pointer, schema);
  if (schema.contains("properties"))
    for (const auto& [key, field] : schema.at("properties").items())
      each_field(field, pointer + "/" + key, visit);
  if (schema.contains("items")) each_field(schema.at("items"), pointer + "/0", visit);
}

void each_field_of_spec(const Visit& visit) {
  std::ifstream in("crds/generator/kubernetes.json");
  const Json crd = training_job_crd(Json::parse(in));
  const Json& root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
  each_field(root.at("properties").at("spec"), "/spec", visit);
}

// "/spec/failurePolicy/rules/0/action" as messages say it: "spec.failurePolicy.rules[0].action".
std::string path_of(const std::string& pointer) {
  std::string path;
  for (std::size_t start = 1; start <= pointer.size();) {
    const std::size_t end = std::min(pointer.find('/', start), pointer.size());
    const std::string part = pointer.substr(start, end - start);
    path += part == "0" ? "[0]" : (path.empty() ? "" : ".") + part;
    start = end + 1;
  }
  return path;
}

job::Json full_job() {
  return to_json(job::read_job(std::string_view(test::kEveryField), "job.yaml"));
}

std::string pointer_of(std::string_view key) {
  std::string pointer = "/spec/training/" + std::string(key);
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return pointer;
}

// What the operator says of this field alone, with this value in a job that has every field.
std::string answer(const std::string& pointer, const job::Json& value) {
  job::Json object = full_job();
  object[job::Json::json_pointer(pointer)] = value;
  std::string answers;
  for (const job::Problem& problem : validate(job::read_job(object), {}))
    if (problem.path == path_of(pointer) &&
        (problem.message.starts_with("must be") || problem.message.starts_with("out of range") ||
         problem.message.starts_with("unknown") ||
         problem.message.find("not in this version") != std::string::npos))
      answers += problem.message + "; ";
  return answers;
}

void expect_taken(const std::string& pointer, const job::Json& value) {
  EXPECT_EQ(answer(pointer, value), "") << path_of(pointer) << ": " << value;
}

void expect_refused(const std::string& pointer, const job::Json& value) {
  EXPECT_NE(answer(pointer, value), "") << path_of(pointer) << ": " << value;
}

}  // namespace

TEST(Agreement, integers_have_the_same_limits) {
  int fields = 0;
  each_field_of_spec([&](const std::string& pointer, const Json& schema) {
    if (schema.value("type", "") != "integer") return;
    ++fields;
    ASSERT_TRUE(schema.contains("minimum") && schema.contains("maximum")) << pointer;
    const auto min = schema.at("minimum").get<std::int64_t>();
    const auto max = schema.at("maximum").get<std::int64_t>();
    expect_taken(pointer, min);
    expect_taken(pointer, max);
    expect_refused(pointer, min - 1);
    // Of 64 bits without a sign the API server holds the lower half.
    if (pointer != "/spec/training/seed") expect_refused(pointer, max + 1);
    expect_refused(pointer, "1");
    expect_refused(pointer, 1.5);
  });
  EXPECT_GT(fields, 30);
}

TEST(Agreement, numbers_have_the_same_limits) {
  int fields = 0;
  each_field_of_spec([&](const std::string& pointer, const Json& schema) {
    if (schema.value("type", "") != "number") return;
    ++fields;
    const auto min = schema.at("minimum").get<double>();
    const auto max = schema.at("maximum").get<double>();
    const bool above = schema.value("exclusiveMinimum", false);
    const bool below = schema.value("exclusiveMaximum", false);
    above ? expect_refused(pointer, min) : expect_taken(pointer, min);
    below ? expect_refused(pointer, max) : expect_taken(pointer, max);
    expect_refused(pointer, min - 1e-9);
    expect_refused(pointer, max * 1.01);
    expect_taken(pointer, min + (max - min) / 2);
  });
  EXPECT_GT(fields, 10);
}

// Words of later versions are refused by both.
TEST(Agreement, enumerations_have_the_same_words) {
  int fields = 0;
  each_field_of_spec([&](const std::string& pointer, const Json& schema) {
    if (!schema.contains("enum")) return;
    ++fields;
    for (const auto& word : schema.at("enum")) expect_taken(pointer, word.get<std::string>());
    expect_refused(pointer, "nonsense");
    expect_refused(pointer, 7);
  });
  EXPECT_GT(fields, 20);
  for (const contract::Field& field : contract::kFields)
    for (const std::string_view word : contract::split_choices(field.later))
      expect_refused(pointer_of(field.key), std::string(word));
}

TEST(Agreement, truths_are_no_texts) {
  int fields = 0;
  each_field_of_spec([&](const std::string& pointer, const Json& schema) {
    if (schema.value("type", "") != "boolean") return;
    ++fields;
    expect_taken(pointer, true);
    expect_taken(pointer, false);
    expect_refused(pointer, "perhaps");
  });
  EXPECT_GE(fields, 3);
}

TEST(Agreement, slots_are_a_number_or_auto) {
  for (const job::Json& value : {job::Json(1), job::Json(1024), job::Json("auto")})
    expect_taken("/spec/slotsPerWorker", value);
  for (const job::Json& value : {job::Json(0), job::Json(1025), job::Json("many")})
    expect_refused("/spec/slotsPerWorker", value);
}

TEST(Agreement, defaults_are_those_of_the_reader) {
  int fields = 0;
  each_field_of_spec([&](const std::string& pointer, const Json& schema) {
    if (!schema.contains("default")) return;
    ++fields;
    job::Json absent = full_job();
    const std::size_t cut = pointer.rfind('/');
    absent[job::Json::json_pointer(pointer.substr(0, cut))].erase(pointer.substr(cut + 1));
    job::Json given = absent;
    given[job::Json::json_pointer(pointer)] = job::Json::parse(schema.at("default").dump());
    EXPECT_EQ(job::read_job(given).spec, job::read_job(absent).spec) << pointer;
  });
  EXPECT_GT(fields, 10);
}

TEST(Agreement, every_field_of_the_schema_is_known_to_the_reader) {
  each_field_of_spec([&](const std::string& pointer, const Json& schema) {
    if (schema.value("type", "") == "object" || pointer == "/spec/training/data/augment/0") return;
    const std::string said = answer(pointer, nullptr);
    EXPECT_EQ(said.find("unknown"), said.npos) << path_of(pointer) << ": " << said;
  });
}

TEST(Agreement, every_field_of_the_reader_is_in_the_schema) {
  std::vector<std::string> known;
  each_field_of_spec([&](const std::string& pointer, const Json&) { known.push_back(pointer); });
  const std::function<void(const job::Json&, const std::string&)> check =
      [&](const job::Json& value, const std::string& pointer) {
        if (is_foreign(pointer) || pointer.ends_with("/minResources")) return;
        EXPECT_NE(std::find(known.begin(), known.end(), pointer), known.end()) << pointer;
        if (value.is_object())
          for (const auto& [key, inner] : value.items()) check(inner, pointer + "/" + key);
        if (value.is_array() && !value.empty()) check(value[0], pointer + "/0");
      };
  check(full_job().at("spec"), "/spec");
}

}  // namespace coxswain::crd
