#include <nlohmann/json.hpp>

#include "tests/operator/cluster/job_run.h"

namespace coxswain {
namespace {

using namespace std::chrono_literals;
using test::count_in;
using test::eventually;
using test::JobRun;
using test::kServersRun;
using ::testing::EndsWith;
using ::testing::HasSubstr;

struct JobOptions {
  std::string launcher = "MPI";
  int workers = 2;
  std::string policy = "backoffLimit: 3";
};

std::string job_text(const std::string& behaviours, const JobOptions& options) {
  return fmt::format(R"(apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {{name: test}}
spec:
  launcher: {}
  runPolicy: {{{}}}
  replicaSpecs:
    Worker:
      replicas: {}
      template:
        spec:
          containers: [{{name: trainer, image: x, command: [coxswain-trainer, act, {}]}}]
)",
                     options.launcher, options.policy, options.workers, behaviours);
}

struct EndCase {
  const char* name;
  const char* behaviours;
  JobOptions job;
  int code;
  const char* result;
  int restarts;
  const char* said;  // on standard error
};

class RunEnds : public ::testing::TestWithParam<EndCase> {};

TEST_P(RunEnds, with_the_jobs_result) {
  const EndCase& row = GetParam();
  JobRun run(job_text(row.behaviours, row.job));

  EXPECT_EQ(run.code(), row.code) << run.errors();
  EXPECT_THAT(run.last_line(),
              HasSubstr(fmt::format("{{\"event\":\"finished\",\"result\":\"{}\"", row.result)));
  EXPECT_THAT(run.last_line(), HasSubstr(fmt::format("\"restarts\":{},", row.restarts)));
  EXPECT_EQ(count_in(run.output(), "\"finished\""), 1);
  EXPECT_THAT(run.errors(), HasSubstr(row.said));
  run.expect_nothing_left();
}

const JobOptions kNoRetry{.launcher = "MPI", .workers = 2, .policy = "backoffLimit: 0"};
const JobOptions kEnv{.launcher = "Env", .workers = 2, .policy = "backoffLimit: 1"};
const JobOptions kOneRetry{.launcher = "MPI", .workers = 2, .policy = "backoffLimit: 1"};

INSTANTIATE_TEST_SUITE_P(
    Table, RunEnds,
    ::testing::Values(
        EndCase{"done", "'done:0'", {}, 0, "Succeeded", 0, ""},
        EndCase{"restarts_after_a_failure", "'flaky:9'", {}, 0, "Succeeded", 1, "exit=9"},
        EndCase{"restarts_after_another_workers_failure", "save, 'flaky:9'", kNoRetry, 9, "Failed",
                0, "worker-1 exit=9"},
        EndCase{"budget_exhausted", "save, 'die:11'", kOneRetry, 139, "Failed", 1,
                "worker-1 exit=139"},
        EndCase{"bad_input_is_not_retried", "'done:65'", {}, 65, "Failed", 0, "exit=65"},
        EndCase{"bad_input_elsewhere_is_not_retried",
                "save, 'late:65'",
                {},
                65,
                "Failed",
                0,
                "worker-1 exit=65"},
        EndCase{"foreign_command_done", "'done:0'", kEnv, 0, "Succeeded", 0, ""},
        EndCase{"foreign_command_fails", "'done:0', 'done:4'", kEnv, 4, "Failed", 1,
                "worker-1 exit=4"},
        EndCase{"deadline",
                "save",
                {.policy = "activeDeadlineSeconds: 1"},
                70,
                "Failed",
                0,
                "DeadlineExceeded"}),
    [](const auto& row) { return row.param.name; });

TEST(Run, says_nothing_else_when_all_goes_well) {
  JobRun run(job_text("'done:0'", {}));
  EXPECT_EQ(run.code(), 0);
  EXPECT_EQ(run.errors(), "");
  EXPECT_EQ(run.output(), run.last_line() + "\n");
}

TEST(Run, prints_json_alone_when_asked_to) {
  JobRun run(job_text("'flaky:9'", {}), {"--log-format", "json"});
  EXPECT_EQ(run.code(), 0);
  EXPECT_EQ(run.errors(), "");
  std::istringstream lines(run.output());
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
  EXPECT_THAT(run.output(), HasSubstr("\"reason\":\"Restarting\""));
}

TEST(Run, saves_and_leaves_with_75_when_asked_to_stop) {
  for (const int number : {SIGINT, SIGTERM}) {
    JobRun run(job_text("save", {}));
    ASSERT_TRUE(run.listening(2));
    run.signal(number);

    EXPECT_EQ(run.code(), 75) << run.errors();
    EXPECT_THAT(run.last_line(), HasSubstr("\"result\":\"Saved\""));
    EXPECT_THAT(run.last_line(), EndsWith("\"checkpoint\":\"checkpoints/step-00000040.g1\"}"));
    run.expect_nothing_left();
  }
}

TEST(Run, kills_what_does_not_stop_within_the_grace) {
  JobRun run(job_text("deaf", {.policy = "terminationGracePeriodSeconds: 1"}));
  ASSERT_TRUE(run.listening(2));
  run.signal(SIGTERM);

  EXPECT_EQ(run.code(), 137) << run.errors();
  EXPECT_THAT(run.last_line(), HasSubstr("\"result\":\"Failed\""));
  run.expect_nothing_left();
}

TEST(Run, kills_at_once_on_a_second_signal) {
  JobRun run(job_text("deaf", {}));
  ASSERT_TRUE(run.listening(2));
  run.signal(SIGINT);
  ASSERT_TRUE(eventually([&] { return run.errors().find("Suspended") != std::string::npos; }));
  // As `timeout` and a terminal send it to a whole group, and once more: still one wish.
  run.signal(SIGINT);
  EXPECT_FALSE(run.ends_within(500ms)) << run.errors();
  run.signal(SIGINT);

  EXPECT_EQ(run.code(5s), 128 + SIGINT) << run.errors();
  EXPECT_EQ(count_in(run.output(), "\"finished\""), 1);
  run.expect_nothing_left();
}

struct KillCase {
  const char* name;
  pid_t (*victim)(JobRun& run);
  const char* said;
};

class RunSurvives : public ::testing::TestWithParam<KillCase> {};

// What is killed once is made again, and the second gang saves when it is asked to.
TEST_P(RunSurvives, the_loss_of) {
  JobRun run(job_text("save", {}));
  ASSERT_TRUE(run.listening(2));
  const pid_t victim = GetParam().victim(run);
  ASSERT_GT(victim, 1);
  kill(victim, SIGKILL);

  ASSERT_TRUE(run.listening(4));
  run.signal(SIGTERM);
  EXPECT_EQ(run.code(), 75) << run.errors();
  EXPECT_THAT(run.last_line(), HasSubstr("\"restarts\":1,"));
  EXPECT_THAT(run.errors(), HasSubstr(GetParam().said));
  run.expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(
    Table, RunSurvives,
    ::testing::Values(
        KillCase{"rank_0", [](JobRun& run) { return run.command_of(0); }, "worker-0 exit=137"},
        KillCase{"rank_1", [](JobRun& run) { return run.command_of(1); }, "worker-1 exit=137"},
        KillCase{"supervisor", [](JobRun& run) { return run.supervisor_of(1, 0); },
                 "worker-1 exit=137"},
        KillCase{"mpirun", [](JobRun& run) { return run.find({"mpirun", "--host"}); },
                 "mpirun was killed by signal 9"},
        KillCase{"worker", [](JobRun& run) { return run.find({"coxswain-trainer worker"}); },
                 "worker-0 exit=137"}),
    [](const auto& row) { return row.param.name; });

TEST(Run, takes_a_volume_given_by_hand) {
  const test::TemporaryDirectory volume;
  const auto checkpoints = volume.path() / "made";
  JobRun run(job_text("'done:0'", {}) +
                 "  volumes: {data: {nfs: {server: a, path: /b}}, checkpoints: {emptyDir: {}}}\n",
             {"--volume", "data=" + volume.path().string(), "--volume",
              "checkpoints=" + checkpoints.string()});
  EXPECT_EQ(run.code(), 0) << run.errors();
  EXPECT_TRUE(std::filesystem::is_directory(checkpoints));
}

TEST(Run, refuses_before_anything_is_started) {
  struct Row {
    const char* job;
    std::vector<std::string> arguments;
    int code;
    const char* said;
  };
  const std::string good = job_text("'done:0'", {});
  const std::string bad = job_text("'done:0'", {.workers = 0});
  const std::string nfs = good + "  volumes: {data: {nfs: {server: a, path: /b}}}\n";
  std::string mpi = kServersRun;
  mpi.replace(mpi.find("ParameterServer"), 15, "AllReduce");
  const Row rows[] = {
      {good.c_str(), {"--volume", "data"}, 2, "--volume data: write NAME=DIR"},
      {good.c_str(), {"--volume", "model=/tmp"}, 2, "the job has no volumes"},
      {good.c_str(), {"--volume", "data=/tmp"}, 2, "add it to spec.volumes"},
      {nfs.c_str(), {"--volume=data=/tmp", "--volume=data=/var"}, 2, "data is given twice"},
      {nfs.c_str(), {"--volume=data=/tmp/a\nb"}, 2, "control characters"},
      {good.c_str(), {"--log-format", "xml"}, 2, "see coxswain run --help"},
      {kServersRun, {"--kill", "worker-1"}, 2, "--kill worker-1: write ROLE-INDEX@STEP"},
      {kServersRun, {"--kill", "master-1@3"}, 2, "write ROLE-INDEX@STEP"},
      {kServersRun, {"--kill", "worker-1@-3"}, 2, "write ROLE-INDEX@STEP"},
      {kServersRun, {"--kill", "worker-x@3"}, 2, "write ROLE-INDEX@STEP"},
      {kServersRun, {"--kill", "@3"}, 2, "write ROLE-INDEX@STEP"},
      {kServersRun, {"--kill=worker-1@3", "--kill=worker-1@4"}, 2, "worker-1 is given twice"},
      {kServersRun, {"--kill", "server-2@3"}, 65, "the job has 2 servers, from 0 on"},
      {good.c_str(), {"--kill", "worker-1@3"}, 65, "only with `training`"},
      {mpi.c_str(), {"--kill=worker-0@3", "--kill=worker-1@3"}, 65, "with launcher MPI one"},
      {nfs.c_str(), {}, 65, "--volume data=DIR"},
      {bad.c_str(), {}, 65, "job.yaml:9: spec.replicaSpecs.Worker.replicas"},
      {"a: [", {}, 65, "job.yaml:"},
  };
  for (const Row& row : rows) {
    JobRun run(row.job, row.arguments);
    EXPECT_EQ(run.code(), row.code) << run.errors();
    EXPECT_THAT(run.errors(), HasSubstr(row.said));
    EXPECT_EQ(run.output(), "");
    EXPECT_FALSE(std::filesystem::exists(run.run_dir() / "0"));
  }
}

TEST(Run, takes_everything_with_it_when_killed) {
  for (const char* launcher : {"MPI", "Env"}) {
    JobRun run(job_text("deaf", {.launcher = launcher}));
    ASSERT_TRUE(run.listening(2));
    run.signal(SIGKILL);
    EXPECT_EQ(run.code(), 137);
    run.expect_nothing_left();
  }
}

}  // namespace
}  // namespace coxswain
