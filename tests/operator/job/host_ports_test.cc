#include "operator/job/roles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "operator/job/job_reader.h"
#include "operator/job/plan.h"
#include "operator/job/status.h"
#include "operator/job/worker_spec.h"
#include "tests/support/job_builders.h"

namespace coxswain::test {

namespace {

JobBuilder on_host(JobBuilder job) {
  job.spec().worker.pod_template =
      job::Json::parse(R"({"spec":{"hostNetwork":true,"containers":[{"name":"trainer"}]}})");
  return job;
}

}  // namespace

TEST(HostPorts, are_the_contracts_unless_a_template_is_on_the_host) {
  EXPECT_EQ(job::draw_host_port(make_job(), 1), 0);
  EXPECT_EQ(job::ports_of(make_job()), job::Ports{});
  auto job = on_host(make_job());
  job.status().host_port = 20040;
  EXPECT_EQ(job::ports_of(job),
            (job::Ports{.ssh = 20040, .rank = 20041, .server = 20042, .server_rank = 20040,
                        .master = 20043, .peer = 20044}));
}

TEST(HostPorts, are_other_ones_for_other_attempts_and_jobs) {
  std::set<int> drawn;
  auto job = on_host(make_job());
  for (int uid = 0; uid < 20; ++uid)
    for (int attempt = 0; attempt < 10; ++attempt) {
      job.metadata().uid = fmt::format("5f0c3a9e-9d3b-4a55-8a4f-0d6f1a2b{:04x}", uid);
      const int first = job::draw_host_port(job, attempt);
      EXPECT_EQ(first, job::draw_host_port(job, attempt)) << "the same each time";
      EXPECT_GE(first, 20000);
      EXPECT_LE(first + 3, 29999);
      EXPECT_EQ(first % 4, 0) << "two draws are the same or have no port in common";
      drawn.insert(first);
    }
  EXPECT_GT(drawn.size(), 180U) << "of 200";
}

TEST(HostPorts, are_enough_for_the_ranks_that_mpirun_does_not_start) {
  auto job = on_host(make_job());
  job.spec().launcher = job::Launcher::kEnv;
  job.spec().slots_per_worker = 8;
  for (int attempt = 0; attempt < 50; ++attempt) {
    const int first = job::draw_host_port(job, attempt);
    EXPECT_LE(first + 11, 29999);
    EXPECT_EQ((first - 20000) % 12, 0) << "two draws are the same or have no port in common";
  }
}

// What was decided is stored: whoever reads the status knows the ports, whatever drew them.
TEST(HostPorts, are_drawn_with_the_attempt_and_kept_in_the_status) {
  auto job = on_host(make_job());
  job.status().keys_secret = "made";
  job::Observed seen;
  seen.now = kStart;
  seen.installation.pod_security = job::PodSecurity::kPrivileged;
  const job::Status status = job::plan(job, seen).status;
  EXPECT_EQ(status.attempt, 0);
  EXPECT_EQ(status.host_port, job::draw_host_port(job, 0));
  EXPECT_EQ(job::read_status(job::to_json(status)).host_port, status.host_port);
  EXPECT_EQ(job::read_status({{"hostPort", 65533}}).host_port, 0) << "the last of four is none";
}

TEST(HostPorts, are_what_the_programs_are_told) {
  auto job = on_host(make_job()).running();
  job.status().host_port = 20040;
  auto environment = job::worker_spec(job, {}).environment;
  EXPECT_EQ(environment.at("COXSWAIN_SSH_PORT"), "20040");
  EXPECT_EQ(environment.at("COXSWAIN_RANK_PORT"), "20041");
  job.spec().training.reset();
  job.spec().launcher = job::Launcher::kEnv;
  environment = job::worker_spec(job, {}).environment;
  EXPECT_EQ(environment.at("MASTER_PORT"), "20043");
  EXPECT_EQ(environment.at("PET_MASTER_PORT"), "20043");
  EXPECT_NE(environment.at("TF_CONFIG").find("svc:20043"), std::string::npos);
}

// A worker and a server of one job fit on one node.
TEST(HostPorts, of_a_server_are_none_of_a_workers) {
  auto job = on_host(make_job().servers(1)).running();
  job.status().host_port = 20040;
  const auto server = job::worker_spec(job, {job::Role::kServer, 0, 0}).environment;
  const auto worker = job::worker_spec(job, {}).environment;
  EXPECT_NE(server.at("COXSWAIN_SERVERS").find("svc:20042"), std::string::npos);
  EXPECT_EQ(server.at("COXSWAIN_RANK_PORT"), "20040");
  EXPECT_EQ(worker.at("COXSWAIN_RANK_PORT"), "20041");
  EXPECT_EQ(worker.at("COXSWAIN_PEER_PORT"), "20044");
}

}  // namespace coxswain::test
