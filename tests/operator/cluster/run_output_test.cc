#include "operator/run_output.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
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
  status.progress->accuracy = 0.5;  // of training images alone
  contract::TerminationMessage said;
  said.progress = contract::Progress{};
  said.progress->epoch = 10;
  said.progress->step = 9380;
  said.progress->test_accuracy = 0.9912;
  said.progress->test_loss = 0.031;
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
  EXPECT_THAT(
      problems_of(read_job_file(file)),
      testing::ElementsAre(testing::StartsWith(file.string() + ":7: spec.training.model: "),
                           testing::StartsWith(file.string() + ":8: spec.training.epochs: ")));
}

namespace {

JobFile job_file(const std::filesystem::path& directory, const std::string& rest,
                 const std::string& before = "") {
  const auto file = directory / "job.yaml";
  std::ofstream(file) << before
                      << "apiVersion: coxswain.dev/v1alpha1\nkind: TrainingJob\n"
                         "metadata: {name: a}\nspec:\n  training: {model: mlp, data: {format: "
                         "mnist}}\n"
                      << rest;
  return read_job_file(file);
}

constexpr const char* kTwo = "  replicaSpecs: {Worker: {replicas: 2}}\n";

std::string claim(const char* mode) {
  return fmt::format(
      "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: c}}\n"
      "spec: {{accessModes: [{}]}}\n---\n",
      mode);
}

}  // namespace

TEST(JobFile, is_held_against_the_schema_of_the_api_server) {
  const test::TemporaryDirectory temporary;
  const JobFile file = job_file(temporary.path(),
                                "  replicaSpecs:\n"
                                "    Worker:\n"
                                "      replicas: 2\n"
                                "      template:\n"
                                "        spec:\n"
                                "          containers:\n"
                                "          - name: trainer\n"
                                "            env:\n"
                                "            - {name: A, value: 5}\n"
                                "            - {name: A, value: x}\n"
                                "            comand: [x]\n"
                                "            \"\\e[31m" +
                                    std::string(500, 'k') + "\": 1\n");
  const std::string path = ": spec.replicaSpecs.Worker.template.spec.containers[0].";
  const std::vector<std::string> problems = problems_of(file);
  EXPECT_THAT(problems,
              testing::IsSupersetOf(
                  {file.name + ":14" + path + "env[0].value: must be a text, got 5",
                   file.name + ":15" + path + "env[1]: a second one of {\"name\":\"A\"}",
                   file.name + ":16" + path + "comand: unknown field; did you mean \"command\"?"}));
  EXPECT_THAT(problems, testing::SizeIs(4));
  EXPECT_THAT(problems, testing::Contains(testing::AllOf(testing::HasSubstr("\\x1b[31mkkk"),
                                                         testing::SizeIs(testing::Lt(400)))));
}

TEST(JobFile, warns_of_a_claim_that_several_workers_mount) {
  const test::TemporaryDirectory temporary;
  const std::string data = "  volumes: {data: {persistentVolumeClaim: {claimName: c}}}\n";
  const auto warned = [&](const std::string& rest, const std::string& before = "") {
    const JobFile file = job_file(temporary.path(), rest, before);
    EXPECT_THAT(problems_of(file), testing::IsEmpty());
    return warnings_of(file);
  };
  EXPECT_THAT(warned(kTwo + data),
              testing::ElementsAre(testing::HasSubstr(
                  "job.yaml:7: spec.volumes.data: all 2 workers mount the claim c: unless it is "
                  "ReadWriteMany or ReadOnlyMany they must fit on one node")));
  EXPECT_THAT(warned(kTwo + data, claim("ReadWriteOnce")), testing::SizeIs(1));
  EXPECT_THAT(warned(kTwo + data, claim("ReadWriteMany")), testing::IsEmpty());
  EXPECT_THAT(warned(kTwo + data, "kind: PersistentVolumeClaim\nspec: [1]\nmetadata: x\n---\n"),
              testing::SizeIs(1));
  EXPECT_THAT(warned("  replicaSpecs: {Worker: {replicas: 1}}\n" + data), testing::IsEmpty());
  // Rank 0 alone writes checkpoints.
  EXPECT_THAT(warned(std::string(kTwo) +
                     "  volumes: {checkpoints: {persistentVolumeClaim: {claimName: c}}}\n"),
              testing::IsEmpty());
  EXPECT_THAT(
      warned("  replicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: "
             "trainer}], volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}}}}\n"),
      testing::ElementsAre(testing::HasSubstr("template.spec.volumes[0]: all 2 workers")));
}

TEST(JobFile, says_why_it_cannot_be_read) {
  for (const char* file : {"/no/such/job.yaml", "/tmp", "/proc/self/mem"}) {
    try {
      read_job_file(file);
      ADD_FAILURE() << file;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(file + std::string(": can't read the job: ")),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace coxswain
