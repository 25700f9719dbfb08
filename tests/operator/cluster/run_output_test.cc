#include "operator/run_output.h"

#include <gtest/gtest.h>

#include <fstream>

#include "operator/job_file.h"
#include "tests/support/test_flags.h"
#include "trainer/contract/error.h"

namespace coxswain {
namespace {

job::Worker ended_with(const contract::TerminationMessage& message) {
  job::Worker worker;
  worker.termination_message = message;
  return worker;
}

TEST(RunOutput, last_line_has_all_restarts_and_the_last_progress) {
  job::Status status;
  status.restarts = {.failure = 1, .preemption = 2, .node = 3, .startup = 4, .resize = 5};
  status.progress = job::Progress{};
  status.progress->epoch = 3;
  contract::TerminationMessage said;
  said.progress = contract::Progress{};
  said.progress->epoch = 10;
  said.progress->step = 9380;
  said.progress->accuracy = 0.9912;
  said.progress->loss = 0.031;
  said.progress->samples_per_second = 15200;
  said.checkpoint = contract::CheckpointProgress{
      .step = 9380, .time = "", .path = "/ckpt/step-00009380.g1", .bytes = 5};

  EXPECT_EQ(render_finished(RunResult::kSucceeded, status, ended_with(said)),
            "{\"event\":\"finished\",\"result\":\"Succeeded\",\"accuracy\":0.9912,\"loss\":0.031,"
            "\"epochs\":10,\"steps\":9380,\"samplesPerSecond\":15200.0,\"restarts\":15,"
            "\"checkpoint\":\"checkpoints/step-00009380.g1\"}\n");
  EXPECT_EQ(render_finished(RunResult::kFailed, status, std::nullopt),
            "{\"event\":\"finished\",\"result\":\"Failed\",\"accuracy\":null,\"loss\":null,"
            "\"epochs\":3,\"steps\":0,\"samplesPerSecond\":0.0,\"restarts\":15,"
            "\"checkpoint\":null}\n");
}

TEST(RunOutput, text_leaves_the_ordinary_course_out) {
  const std::vector<job::Event> events{{false, "Started", "a"}, {true, "Restarting", "b"}};
  job::Status status;
  EXPECT_EQ(render_events(events, status, false), "coxswain: Restarting: b\n");
  EXPECT_EQ(render_events(events, status, true),
            "{\"event\":\"state\",\"reason\":\"Started\",\"message\":\"a\",\"warning\":false,"
            "\"phase\":\"\",\"attempt\":0}\n"
            "{\"event\":\"state\",\"reason\":\"Restarting\",\"message\":\"b\",\"warning\":true,"
            "\"phase\":\"\",\"attempt\":0}\n");
}

TEST(RunOutput, a_failed_job_ends_with_the_first_causes_code) {
  job::Status status;
  EXPECT_EQ(exit_code(RunResult::kFailed, status), 70);
  status.last_failure = job::Failure{};
  EXPECT_EQ(exit_code(RunResult::kFailed, status), 70);
  status.last_failure->exit_code = 137;
  EXPECT_EQ(exit_code(RunResult::kFailed, status), 137);
  EXPECT_EQ(exit_code(RunResult::kSucceeded, status), 0);
  EXPECT_EQ(exit_code(RunResult::kSaved, status), 75);
}

TEST(JobFile, tells_every_problem_with_its_place) {
  const test::TemporaryDirectory temporary;
  const auto file = temporary.path() / "job.yaml";
  std::ofstream(file) << "apiVersion: coxswain.dev/v1alpha1\nkind: TrainingJob\n"
                         "metadata: {name: a}\nspec:\n  replicaSpecs: {Worker: {replicas: 2}}\n"
                         "  training:\n    model: nosuch\n    epochs: x\n"
                         "    data: {format: mnist}\n";
  const std::string problems = problems_of(read_job_file(file), "job.yaml");
  EXPECT_NE(problems.find("job.yaml:7: spec.training.model: "), std::string::npos) << problems;
  EXPECT_NE(problems.find("job.yaml:8: spec.training.epochs: "), std::string::npos) << problems;
}

TEST(JobFile, says_why_it_cannot_be_read) {
  for (const char* file : {"/no/such/job.yaml", "/tmp"}) {
    try {
      read_job_file(file);
      ADD_FAILURE() << file;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace coxswain
