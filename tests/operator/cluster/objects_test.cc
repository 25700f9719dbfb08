#include <gtest/gtest.h>

#include <string>

#include "operator/cluster/base64.h"
#include "operator/cluster/pod.h"
#include "tests/operator/cluster/pod_fixtures.h"

namespace coxswain::test {

using job::Json;
using job::Role;

TEST(Objects, are_named_by_what_they_hold) {
  job::TrainingJob job = job_of(kMpiJob);
  const std::string name = cluster::config_map_name(job);
  EXPECT_EQ(name, cluster::config_map(job)["metadata"]["name"]);
  EXPECT_EQ(name, cluster::config_map_name(started(job, 7))) << "the same in every attempt";
  job.status.workers = 3;
  EXPECT_NE(name, cluster::config_map_name(job)) << "another hostfile";
  job = job_of(kMpiJob);
  (*job.spec.training)["epochs"] = 11;
  EXPECT_NE(name, cluster::config_map_name(job)) << "another configuration";
}

TEST(Objects, programs_that_are_not_ours_read_plain_names) {
  EXPECT_EQ(cluster::config_map(job_of(kForeignJob))["data"]["workers"],
            "ddp-worker-0.ddp.team.svc\nddp-worker-1.ddp.team.svc\n");
  EXPECT_FALSE(cluster::config_map(job_of(kMpiJob))["data"].contains("workers"));
}

TEST(Objects, the_secret_holds_every_key_encoded) {
  const Json secret =
      cluster::secret(job_of(kMpiJob), {"client", "authorized", "host", "hosts", "server"});
  EXPECT_EQ(secret["data"], Json({{"id_ecdsa", cluster::base64("client")},
                                  {"authorized_keys", cluster::base64("authorized")},
                                  {"ssh_host_ecdsa_key", cluster::base64("host")},
                                  {"known_hosts", cluster::base64("hosts")},
                                  {"server_key", cluster::base64("server")}}));
  EXPECT_EQ(secret["immutable"], true);
  EXPECT_EQ(secret["metadata"]["name"], "mnist-keys-5f0c3a9e") << "as the status says";
}

// A ConfigMap holds 1 MiB, an environment variable 128 KiB.
TEST(Objects, hold_the_largest_job) {
  job::TrainingJob job = job_of(kMpiJob);
  job.metadata.name = std::string(51, 'j');
  job.metadata.name_space = std::string(63, 'n');
  job.spec.worker.replicas = 4096;
  job.spec.slots_per_worker = 1024;
  const std::string data = cluster::config_map(started(job))["data"].dump();
  EXPECT_GT(data.size(), 700'000U);
  EXPECT_LT(data.size(), 1'000'000U);
  const Json pod = cluster::pod(started(job), {Role::kWorker, 4095, 1}, "config");
  EXPECT_EQ(pod["metadata"]["name"].get<std::string>().size(), 63U);
  EXPECT_LT(pod.dump().size(), 10'000U);
}

TEST(Objects, a_pod_group_asks_for_what_the_scheduler_will_count) {
  struct Row {
    const char* what;
    const char* spec;
    const char* cpu;  // of two pods
  };
  const Row rows[] = {
      {"containers run together",
       R"({"containers":[{"resources":{"requests":{"cpu":1}}},
                         {"resources":{"limits":{"cpu":2}}}]})",
       "6"},
      {"an init container runs alone",
       R"({"containers":[{"resources":{"requests":{"cpu":1}}}],
           "initContainers":[{"resources":{"requests":{"cpu":3}}},
                             {"resources":{"requests":{"cpu":2}}}]})",
       "6"},
      {"a native sidecar stays",
       R"({"containers":[{"resources":{"requests":{"cpu":1}}}],
           "initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":"500m"}}}]})",
       "3"},
      {"an init container runs beside the sidecars before it, not those after",
       R"({"containers":[{"resources":{"requests":{"cpu":1}}}],
           "initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":1}}},
                             {"resources":{"requests":{"cpu":2}}},
                             {"restartPolicy":"Always",
                              "resources":{"requests":{"cpu":"1500m"}}}]})",
       "7"},
      {"the pod's own word stands, with its overhead",
       R"({"resources":{"requests":{"cpu":4}},"overhead":{"cpu":"250m"},
           "containers":[{"resources":{"requests":{"cpu":1}}}]})",
       "8500m"},
  };
  for (const auto& [what, spec, cpu] : rows) {
    auto job = with_pod(spec);
    job.spec.run_policy.scheduling.gang = job::GangScheduler::kVolcano;
    EXPECT_EQ(cluster::pod_group(job)["spec"]["minResources"]["cpu"], cpu) << what;
  }
}

TEST(Objects, a_pod_group_waits_for_the_whole_gang_unless_told) {
  job::TrainingJob job = job_of(kVolcanoJob);
  auto& policy = job.spec.run_policy.scheduling;
  EXPECT_EQ(cluster::pod_group(job)["spec"]["minMember"], 2);
  policy.min_available.reset();
  EXPECT_EQ(cluster::pod_group(job)["spec"]["minMember"], 3);
  EXPECT_EQ(cluster::pod_group(job)["spec"]["minResources"],
            Json({{"cpu", "6"}, {"memory", "12884901888"}}));
  policy.gang = job::GangScheduler::kCoscheduling;  // it would be slower with them
  EXPECT_FALSE(cluster::pod_group(job)["spec"].contains("minResources"));
  policy.min_resources = {{"cpu", 1}};
  EXPECT_EQ(cluster::pod_group(job)["spec"]["minResources"], Json({{"cpu", 1}}));
}

}  // namespace coxswain::test
