#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "operator/cluster/pod.h"
#include "operator/job/job_reader.h"
#include "operator/job/validation.h"
#include "tests/support/job_builders.h"

// What a template says is in the pod, or is refused: nothing of it is dropped silently.
namespace coxswain::crd {

namespace {

using Content = job::Json;

constexpr const char* kTemplate = R"({
  "metadata": {"labels": {"team": "vision"}, "annotations": {"a": "b"}},
  "spec": {
    "volumes": [{"name": "v", "emptyDir": {}}],
    "initContainers": [{"name": "i", "image": "i:1"}],
    "containers": [{"name": "trainer", "image": "a:1"}]}})";

Content sample(const Content& schema) {
  if (schema.contains("enum")) return schema["enum"][0];
  const std::string type = schema.value("type", "");
  if (type == "boolean") return true;
  if (type == "integer") return 7;
  if (type == "number") return 7.5;
  if (type == "array") return Content::array({sample(schema.value("items", Content::object()))});
  if (type == "object") return Content{{"k", "7"}};
  return "7";
}

void each_leaf(const Content& schema, const std::string& pointer,
               const std::function<void(const std::string&, const Content&)>& visit) {
  const bool list_of_objects = schema.contains("items") && schema["items"].contains("properties");
  if (list_of_objects) return each_leaf(schema["items"], pointer + "/0", visit);
  if (!schema.contains("properties")) return visit(pointer, schema);
  for (const auto& [key, field] : schema["properties"].items())
    each_leaf(field, pointer + "/" + key, visit);
}

job::TrainingJob with_template(const Content& pod_template, bool trains) {
  test::JobBuilder job;
  job.spec().worker.pod_template = pod_template;
  if (!trains) job.spec().training.reset();
  return job.queued();
}

}  // namespace

TEST(TemplateEffects, are_in_the_pod) {
  std::ifstream in("crds/generator/kubernetes.json");
  const Content schema = Content::parse(in).at("PodTemplateSpec");
  job::Installation open;
  open.pod_security = job::PodSecurity::kPrivileged;
  int fields = 0;
  for (const bool trains : {true, false}) {
    const job::TrainingJob plain = with_template(Content::parse(kTemplate), trains);
    ASSERT_EQ(job::validate(plain, {}), std::vector<job::Problem>{});
    const Content before = cluster::pod(plain, {}, "config");
    each_leaf(schema, "", [&](const std::string& pointer, const Content& field) {
      ++fields;
      const auto shows = [&](const Content& value) {
        Content changed = Content::parse(kTemplate);
        changed[Content::json_pointer(pointer)] = value;
        const job::TrainingJob job = with_template(changed, trains);
        return !job::validate(job, open).empty() || cluster::pod(job, {}, "config") != before;
      };
      // One of the two may be what we set anyway.
      EXPECT_TRUE(shows(sample(field)) || (field.value("type", "") == "boolean" && shows(false)))
          << "nothing is left of " << pointer << (trains ? " with" : " without") << " training";
    });
  }
  EXPECT_GT(fields, 1000);
}

}  // namespace coxswain::crd
