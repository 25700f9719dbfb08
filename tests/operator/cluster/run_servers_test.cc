#include <set>

#include "tests/operator/cluster/job_run.h"

// `coxswain run` of a job with parameter servers, and its --kill.
namespace coxswain {
namespace {

using test::count_in;
using test::JobRun;
using test::kServersRun;
using ::testing::HasSubstr;

TEST(RunServers, leave_when_the_workers_are_done) {
  JobRun run(kServersRun, {}, {{"FAKE_TRAIN", "late:0"}});
  EXPECT_EQ(run.code(), 0) << run.errors();
  for (const int i : {0, 1})
    EXPECT_THAT(run.output(), HasSubstr(fmt::format("server {} of 2 listens", i)));
  EXPECT_THAT(run.last_line(), HasSubstr("\"result\":\"Succeeded\""));
  EXPECT_EQ(run.errors(), "");
  run.expect_nothing_left();
}

TEST(RunServers, are_the_first_cause_when_they_end_before_the_workers) {
  JobRun failed(kServersRun, {}, {{"FAKE_TRAIN", "save"}, {"FAKE_SERVER", "65"}});
  EXPECT_EQ(failed.code(), 65) << failed.errors();
  EXPECT_THAT(failed.errors(), HasSubstr("server-1 exit=65 Internal: failed as told"));
  JobRun run(kServersRun, {}, {{"FAKE_TRAIN", "late:0"}, {"FAKE_SERVER", "0"}});
  EXPECT_EQ(run.code(), 0) << run.errors();
  EXPECT_THAT(run.errors(), HasSubstr("Replacing: server-1 exit=0"));
  EXPECT_THAT(run.last_line(), HasSubstr("\"restarts\":1,"));
  run.expect_nothing_left();
}

TEST(RunServers, leave_after_the_workers_have_saved) {
  JobRun run(kServersRun, {}, {{"FAKE_TRAIN", "save"}});
  ASSERT_TRUE(run.listening(4));
  run.signal(SIGTERM);
  EXPECT_EQ(run.code(), 75) << run.errors();
  run.expect_nothing_left();
}

TEST(RunServers, die_with_the_one_that_started_them) {
  JobRun run(kServersRun, {}, {{"FAKE_TRAIN", "deaf"}});
  ASSERT_TRUE(run.listening(4));
  run.signal(SIGKILL);
  EXPECT_EQ(run.code(), 137);
  run.expect_nothing_left();
}

TEST(RunKills, one_process_of_the_first_attempt) {
  const std::vector<std::string> kill = {"--kill", "worker-1@137", "--kill", "server-0@40"};
  JobRun run(kServersRun, kill, {{"FAKE_TRAIN", "late:9"}});
  EXPECT_EQ(run.code(), 9) << run.errors();
  EXPECT_THAT(run.output(), HasSubstr("worker 1 dies at 1:137:reduce\n"));
  EXPECT_THAT(run.output(), HasSubstr("server 0 dies at 0:40:serve\n"));
  EXPECT_EQ(count_in(run.output(), " dies at "), 2) << run.output();
  run.expect_nothing_left();
}

TEST(RunKills, a_rank_that_mpirun_starts) {
  std::string job = kServersRun;
  job.replace(job.find("strategy: ParameterServer"), 25, "slotsPerWorker: 2");
  JobRun run(job, {"--kill", "worker-1@3"});
  EXPECT_EQ(run.code(), 0) << run.errors();
  EXPECT_EQ(count_in(run.output(), " dies at 2:3:reduce\n"), 4) << run.output();
}

// Its servers and its scheduler end before its workers, as MXNet's do.
TEST(RunServers, tells_mxnets_programs_of_one_scheduler) {
  const auto pods = [](int seconds) {
    return fmt::format(
        "template: {{spec: {{containers: [{{name: a, image: x, command: [sh, -c, "
        "'sleep {}; echo $DMLC_ROLE $DMLC_PS_ROOT_URI $DMLC_NODE_HOST "
        "$DMLC_NUM_WORKER $DMLC_NUM_SERVER at $DMLC_PS_ROOT_PORT']}}]}}}}",
        seconds);
  };
  JobRun run(
      fmt::format("apiVersion: coxswain.dev/v1alpha1\nkind: TrainingJob\n"
                  "metadata: {{name: test}}\nspec:\n  strategy: ParameterServer\n"
                  "  rendezvous: [MXNet]\n  replicaSpecs:\n"
                  "    Worker: {{replicas: 2, {}}}\n    Server: {{replicas: 1, {}}}\n",
                  pods(1), pods(0)));
  EXPECT_EQ(run.code(), 0) << run.errors();
  std::set<std::string> ports;
  std::multiset<std::string> roles;
  std::istringstream lines(run.output());
  for (std::string line; std::getline(lines, line);) {
    const auto role = line.find(" 127.0.0.1 127.0.0.1 2 1 at ");
    if (role == std::string::npos) continue;
    roles.insert(line.substr(0, role));
    ports.insert(line.substr(line.rfind(' ')));
  }
  EXPECT_EQ(roles, (std::multiset<std::string>{"scheduler", "server", "worker", "worker"}))
      << run.output();
  EXPECT_EQ(ports.size(), 1U) << run.output();
}

}  // namespace
}  // namespace coxswain
