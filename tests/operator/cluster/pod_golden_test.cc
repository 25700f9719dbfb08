#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "operator/cluster/pod.h"
#include "operator/job/job_reader.h"
#include "operator/job/validation.h"
#include "operator/job/roles.h"
#include "operator/job/worker_spec.h"
#include "operator/job/yaml.h"
#include "tests/operator/cluster/pod_fixtures.h"
#include "tests/support/test_flags.h"

namespace coxswain::test {

namespace {

// Everything that is made for a job, as `kubectl get -o yaml` would show it before it is sent.
std::string objects_text(const job::TrainingJob& job) {
  std::vector<job::Json> objects = {cluster::service(job)};
  if (job::needs_keys(job.spec)) objects.push_back(cluster::secret(job, {}));
  objects.push_back(cluster::config_map(job));
  if (job::has_pod_group(job.spec.run_policy.scheduling.gang))
    objects.push_back(cluster::pod_group(job));
  for (const job::WorkerId& id : job::gang(job)) objects.push_back(cluster::pod(job, id));
  std::string text;
  for (const job::Json& object : objects) text += "---\n" + job::to_yaml(object);
  return text;
}

}  // namespace

// tests/golden/objects/<name>.yaml: what each kind of job becomes.
TEST(PodGolden, makes_these_objects) {
  for (const auto& [name, text] : kJobs) {
    job::TrainingJob job = job::read_job(text, name);
    for (const auto& problem : job::validate(job, {}))
      ADD_FAILURE() << name << ": " << to_text(problem);
    expect_golden(std::string("objects/") + name + ".yaml", objects_text(started(job)));
  }
}

}  // namespace coxswain::test
