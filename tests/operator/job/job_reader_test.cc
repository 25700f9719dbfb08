#include "operator/job/job_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "operator/job/status.h"
#include "operator/job/validation.h"
#include "tests/operator/job/job_fixtures.h"
#include "trainer/contract/error.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::job {

using test::kEveryField;
using test::kSmallestJob;

TEST(JobReader, fills_in_the_defaults) {
  const TrainingJob job = read_job(std::string_view(kSmallestJob), "job.yaml");
  EXPECT_EQ(job.problems, std::vector<Problem>{});
  EXPECT_EQ(job.metadata.name, "mnist");
  EXPECT_EQ(job.metadata.name_space, "default");
  EXPECT_EQ(job.spec.worker.replicas, 2);
  EXPECT_EQ(launcher(job.spec), Launcher::kMpi);
  EXPECT_EQ(success_policy(job.spec), SuccessPolicy::kRankZero);
  EXPECT_EQ(slots_per_worker(job.spec), 1);
  EXPECT_EQ(job.spec.run_policy.backoff_limit, 3);
  EXPECT_EQ(job.spec.run_policy.startup_deadline, Seconds(600));
  EXPECT_EQ(job.spec.run_policy.termination_grace, Seconds(60));
  EXPECT_EQ(job.spec.checkpoint.every_seconds, 60);
  EXPECT_FALSE(job.spec.run_policy.suspend);
  EXPECT_EQ(validate(job, {}), std::vector<Problem>{});
}

TEST(JobReader, takes_as_many_servers_as_workers_unless_told) {
  std::string text = kSmallestJob;
  text.insert(text.find("spec:\n") + 6, "  strategy: ParameterServer\n");
  const TrainingJob job = read_job(text, "job.yaml");
  ASSERT_TRUE(job.spec.server);
  EXPECT_EQ(job.spec.server->replicas, 2);
  EXPECT_EQ(launcher(job.spec), Launcher::kEnv);
  EXPECT_EQ(validate(job, {}), std::vector<Problem>{});
  text.insert(text.find("Worker:"), "Server: {replicas: 3}\n    ");
  EXPECT_EQ(read_job(text, "job.yaml").spec.server->replicas, 3) << text;
  EXPECT_FALSE(read_job(std::string_view(kSmallestJob), "job.yaml").spec.server);
}

TEST(JobReader, reads_every_field) {
  const TrainingJob job = read_job(std::string_view(kEveryField), "job.yaml");
  ASSERT_EQ(job.problems, std::vector<Problem>{});
  const Spec& spec = job.spec;
  EXPECT_EQ(job.metadata.name_space, "team");
  EXPECT_EQ(job.metadata.resource_version, "77");
  EXPECT_EQ(job.metadata.generation, 3);
  EXPECT_EQ(spec.strategy, Strategy::kParameterServer);
  EXPECT_EQ(slots_per_worker(spec), 2);
  EXPECT_EQ(spec.image, "registry.example/trainer:1");
  EXPECT_EQ(spec.server->replicas, 2);
  EXPECT_EQ(spec.checkpoint, (CheckpointPolicy{100, 2, 30, 5, std::nullopt, KeptBest::kNone, false,
                                               std::nullopt, 2}));
  EXPECT_EQ(spec.elastic->degraded_start_after, Seconds(60));
  EXPECT_EQ(spec.elastic->batch, BatchOnResize::kPerWorker);
  EXPECT_EQ(spec.run_policy.active_deadline, Seconds(3600));
  EXPECT_EQ(spec.run_policy.clean_pods, CleanPodPolicy::kAll);
  EXPECT_EQ(spec.run_policy.scheduling.gang, GangScheduler::kVolcano);
  EXPECT_EQ(spec.run_policy.scheduling.min_resources, Json({{"cpu", 4}}));
  ASSERT_EQ(spec.failure_rules.size(), 1u);
  EXPECT_EQ(
      spec.failure_rules[0],
      (FailureRule{FailureAction::kFail, {42, 43}, {"Evicted"}, {Role::kWorker, Role::kServer}}));
  EXPECT_EQ(spec.rendezvous, std::vector<Framework>{Framework::kPyTorch});
}

// kubectl reads YAML 1.1: what it takes for a flag is no text for the API server.
TEST(JobReader, reads_plain_words_as_kubectl_does) {
  const std::vector<std::pair<std::string, Json>> cases{
      {"yes", true},  {"On", true},       {"y", true},
      {"true", true}, {"off", false},     {"N", false},
      {"yEs", "yEs"}, {"\"yes\"", "yes"}, {"~", nullptr},
      {"0x1f", 31},   {"+3", 3},          {"1e1", 10.0},
      {"0o8", "0o8"}, {"1:30", "1:30"},   {"2026-01-01", "2026-01-01"}};
  for (const auto& [text, expected] : cases) {
    const TrainingJob job = read_job("spec: {volumes: {data: {x: " + text + "}}}", "job.yaml");
    EXPECT_EQ(job.spec.data_volume->at("x"), expected) << text;
  }
  const TrainingJob job = read_job("spec: {image: .inf}", "job.yaml");
  EXPECT_THAT(validate(job, {}),
              testing::Contains(
                  Problem{"spec.image", 1, "must be a text, got a number that is not finite"}));
}

TEST(JobReader, reads_back_what_it_writes) {
  for (const char* text : {kSmallestJob, kEveryField}) {
    const TrainingJob job = read_job(std::string_view(text), "job.yaml");
    const TrainingJob again = read_job(to_json(job));
    EXPECT_EQ(again.problems, std::vector<Problem>{});
    EXPECT_EQ(again.spec, job.spec) << to_json(again).dump(1);
    EXPECT_EQ(again.metadata, job.metadata);
  }
}

TEST(JobReader, reads_back_every_field_of_a_status) {
  Status status;
  status.phase = Phase::kRestarting;
  status.attempt = 3;
  status.workers = 4;
  status.image = "trainer:1";
  status.keys_secret = "all-keys-0a1b2c3d";
  status.restarts = {1, 2, 3, 4, 5};
  status.backoff_step = 2;
  const Time time = *parse_rfc3339("2026-01-31T12:00:01Z");
  status.attempt_start_time = time;
  status.next_retry_time = time + Seconds(10);
  status.succeeded_ranks = "0-3,7";
  status.pod_group = GangScheduler::kVolcano;
  status.last_failure =
      Failure{time, 2, Role::kServer, 1, 5, "p", "n", 137, "OOMKilled", "Load", "m"};
  status.replacements = {{Role::kServer, 1, 2, true}, {Role::kWorker, 0, 1, false}};
  status.replicas[Role::kWorker] = {4, 3, 2, 1, 5};
  status.progress.emplace();
  status.progress->epoch = 2;
  status.progress->loss = 0.5;
  status.progress->time = "2026-01-31T12:00:00Z";
  status.checkpoint = CheckpointStatus{1200, "2026-01-31T12:00:00Z", "step-00001200.g1", 99};
  status.conditions.push_back({"Running", true, "AllReady", "every rank", time, 3});
  status.start_time = time;
  status.completion_time = time + Seconds(5);
  status.observed_generation = 3;
  status.selector = "a=b";
  EXPECT_EQ(read_status(to_json(status)), status) << to_json(status).dump(1);
}

TEST(JobReader, writes_what_columns_show_and_reads_nothing_from_it) {
  Status status;
  status.restarts = {.failure = 1, .preemption = 2, .node = 3, .startup = 4, .resize = 5};
  EXPECT_FALSE(to_json(status).contains("ready"));
  status.replicas[Role::kWorker] = {.desired = 4, .ready = 3};
  Json json = to_json(status);
  EXPECT_EQ(json.at("ready"), "3/4");
  EXPECT_EQ(json.at("restarts").at("total"), 10);
  json["ready"] = "9/9";
  json["restarts"]["total"] = 99;
  EXPECT_EQ(read_status(json), status);
}

TEST(JobReader, survives_a_spoiled_status) {
  for (const char* text : {"null", "7", "[]", R"({"attempt":"x","restarts":[],"conditions":[1,{}],
       "progress":7,"startTime":"yesterday","replicaStatuses":{"Worker":9},"workers":-3})",
                           R"({"attempt":2147483647,"workers":4097})"}) {
    const Status status = read_status(Json::parse(text));
    EXPECT_EQ(status.attempt, 0);
    EXPECT_EQ(status.workers, 0);
    EXPECT_FALSE(status.start_time);
  }
}

TEST(JobReader, passes_over_documents_of_other_kinds) {
  const std::string claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: x}\n";
  for (const std::string& text :
       {claim + "---\n" + kSmallestJob, "---\n" + claim + "---\n" + kSmallestJob + "---\n",
        std::string(kSmallestJob) + "---\n" + claim}) {
    const TrainingJob job = read_job(text, "job.yaml");
    EXPECT_EQ(job.metadata.name, "mnist") << text;
    EXPECT_EQ(validate(job, {}), std::vector<Problem>{}) << text;
  }
  EXPECT_EQ(line_of(read_job(claim + "---\nkind: TrainingJob\n", "job.yaml"), "kind"), 5);
}

TEST(JobReader, takes_a_name_that_is_to_be_made) {
  const auto named = [](const std::string& metadata) {
    return read_job("metadata: {" + metadata + "}\n", "job.yaml").metadata.name;
  };
  EXPECT_EQ(named("generateName: ci-mnist-"), "ci-mnist-00000");
  EXPECT_EQ(named("generateName: ci-mnist-, name: given"), "given");
}

TEST(JobReader, takes_json) {
  const std::string json = to_json(read_job(std::string_view(kEveryField), "job.yaml")).dump(2);
  const TrainingJob job = read_job(std::string_view(json), "job.json");
  EXPECT_EQ(job.problems, std::vector<Problem>{});
  EXPECT_EQ(job.spec.worker.replicas, 4);
}

TEST(JobReader, keeps_texts_that_look_like_numbers) {
  const std::string text = std::string(kSmallestJob) + "  image: \"10\"\n";
  EXPECT_EQ(read_job(std::string_view(text), "job.yaml").spec.image, "10");
}

}  // namespace coxswain::job
