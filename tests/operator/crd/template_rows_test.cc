#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "crds/generator/crd.h"
#include "operator/job/job_reader.h"
#include "operator/job/validation.h"

// tests/golden/templates/rows.json: what the API server takes and refuses of a template's pod
// (tests/cluster/template_rows.py asks it), we take and refuse of a job with that template.
namespace coxswain::crd {

namespace {

// The place's template, with these fields beside its $.
Json placed(Json place, const Json& fields) {
  if (place.is_object() && place.contains("$")) {
    place.erase("$");
    place.update(fields);
    return place;
  }
  if (place.is_structured())
    for (Json& inner : place) inner = placed(inner, fields);
  return place;
}

std::vector<job::Problem> problems_of(const Json& pod_template) {
  static const Json schema = [] {
    std::ifstream in("crds/generator/kubernetes.json");
    return training_job_schema(Json::parse(in));
  }();
  const Json object = {
      {"apiVersion", "coxswain.dev/v1alpha1"},
      {"kind", "TrainingJob"},
      {"metadata", {{"name", "mnist"}}},
      {"spec",
       {{"training", {{"model", "mlp"}, {"data", {{"format", "mnist"}}}}},
        {"replicaSpecs", {{"Worker", {{"replicas", 2}, {"template", pod_template}}}}}}}};
  job::Installation installation;
  installation.pod_security = job::PodSecurity::kPrivileged;
  std::vector<job::Problem> problems =
      job::validate(job::read_job(object.dump(), "job.json"), installation);
  job::check_schema(object, schema, "", problems);
  return problems;
}

}  // namespace

TEST(TemplateRows, are_judged_as_the_api_server_judges) {
  std::ifstream in("tests/golden/templates/rows.json");
  const Json table = Json::parse(in);
  for (const char* verdict : {"refused", "taken"})
    for (const auto& [place, rows] : table.at(verdict).items())
      for (const auto& [name, fields] : rows.items()) {
        const std::string row = place + ": " + name;
        const bool differs = table.at("exceptions").contains(row);
        const bool refused = (std::string(verdict) == "refused") != differs;
        const auto problems = problems_of(placed(table.at("places").at(place), fields));
        EXPECT_EQ(!problems.empty(), refused)
            << row
            << (problems.empty() ? "" : ": " + problems[0].path + ": " + problems[0].message);
      }
}

}  // namespace coxswain::crd
