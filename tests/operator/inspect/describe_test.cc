#include "operator/inspect/describe.h"

#include <gtest/gtest.h>

#include "operator/inspect/story_file.h"
#include "tests/support/job_builders.h"

namespace coxswain::inspect {
namespace {

using std::chrono::seconds;
using test::kStart;
using test::make_job;

PastEvent event(int at, int attempt, std::string reason, std::string message = "") {
  return {kStart + seconds(at), attempt, false, std::move(reason), std::move(message)};
}

Sighting seen(const job::TrainingJob& job) {
  Sighting sighting;
  sighting.job = job;
  sighting.now = kStart + seconds(300);
  sighting.place = "namespace lab";
  return sighting;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Describe, tells_each_attempt_and_what_ended_it) {
  Sighting sighting = seen(make_job().running(2));
  sighting.events = {event(0, 0, "Started", "a gang of 2 workers"),
                     event(3, 0, "Running", "every pod is Ready"),
                     event(190, 1, "Restarting", "worker-1 exit=137"),
                     event(200, 1, "Running"),
                     event(260, 2, "Restarting", "worker-0 exit=71 PeerLost"),
                     event(262, 2, "Restarting", "worker-1 exit=70 Internal: no memory")};
  const std::string text = describe(sighting);
  EXPECT_TRUE(holds(text, R"(Attempt 0
  2026-01-01 00:00:00 UTC  began: a gang of 2 workers
  2026-01-01 00:00:03 UTC  every worker was Ready, 3 s after the attempt began
  2026-01-01 00:03:10 UTC  ended after 3 min 10 s (Restarting), first cause: worker-1 exit=137
Attempt 1
  2026-01-01 00:03:10 UTC  began
)")) << text;
  EXPECT_TRUE(holds(text,
                    "ended after 1 min 10 s (Restarting), first cause: worker-1 exit=70 "
                    "Internal: no memory\nAttempt 2\n"))
      << "of two, what was found out later: " << text;
  EXPECT_FALSE(holds(text, "PeerLost")) << text;
}

TEST(Describe, says_where_a_job_stands) {
  job::TrainingJob job = make_job().running();
  job.status.progress = contract::Progress{};
  job.status.progress->epoch = 3;
  job.status.progress->epochs = 10;
  job.status.progress->step = 1200;
  job.status.progress->steps = 4690;
  job.status.progress->loss = 0.0421;
  job.status.progress->samples_per_second = 15200;
  job.status.progress->seconds_left = 130;
  job.status.checkpoint =
      contract::CheckpointProgress{1100, "2026-01-01T00:04:48Z", "step-00001100.g1", 3'400'000};
  const std::string text = describe(seen(job));
  EXPECT_TRUE(
      text.starts_with("mnist (namespace lab): Running, attempt 0 with 2 workers of 1 "
                       "rank, begun 5 min ago\n"))
      << text;
  EXPECT_TRUE(holds(text,
                    "Progress: epoch 3 of 10, step 1,200 of 4,690, loss 0.0421, 15,200 "
                    "images/s, about 2 min 10 s left\n"))
      << text;
  EXPECT_TRUE(holds(text, "Checkpoint: step-00001100.g1, step 1,100, 3.4 MB, 12 s ago\n")) << text;
}

TEST(Describe, names_the_first_cause_and_what_holds_it_up) {
  job::TrainingJob job = make_job().queued(1);
  job.status.restarts.failure = 1;
  job.status.last_failure = job::Failure{.time = kStart + seconds(200),
                                         .attempt = 0,
                                         .index = 1,
                                         .rank = 1,
                                         .pod = "mnist-worker-1",
                                         .node = "node-3",
                                         .exit_code = 137,
                                         .reason = "OOMKilled",
                                         .phase = "AllReduce",
                                         .message = "killed"};
  job::set_condition(job.status, "Ready", {false, "Unschedulable", "worker-0: 0/3 nodes\x1b[2J"},
                     {kStart, 1});
  const std::string text = describe(seen(job));
  EXPECT_TRUE(holds(text,
                    "First cause of the newest end (attempt 0, 1 min 40 s ago): rank 1 in "
                    "worker-1 on node-3 ended with 137 (OOMKilled) in AllReduce: killed\n"))
      << text;
  EXPECT_TRUE(holds(text, "Restarts: 1 by failure (backoffLimit")) << text;
  EXPECT_TRUE(holds(text,
                    "Not ready: Unschedulable: worker-0: 0/3 nodes\\x1b[2J (since 5 min "
                    "ago)\n"))
      << "what a terminal could obey is written out: " << text;
  EXPECT_TRUE(holds(text, "no events are left")) << text;
}

TEST(Describe, lists_a_few_pods_the_troubled_ones_first) {
  Sighting sighting = seen(make_job().workers(40).running());
  for (int i = 0; i < 40; ++i) {
    job::Worker worker;
    worker.id = {job::Role::kWorker, i, 0, 0};
    worker.phase = job::WorkerPhase::kRunning;
    worker.ready = i != 39;
    sighting.workers.push_back(worker);
  }
  const std::string text = describe(sighting);
  EXPECT_TRUE(holds(text, "Workers\n  worker-39 ")) << text;
  EXPECT_TRUE(holds(text, "  and 24 more, 24 of them Ready\n")) << text;
}

TEST(Story, comes_back_as_it_was_written) {
  Story story{make_job().running(1), {event(5, 1, "Restarting", "worker-0 \xff")}, 42};
  const auto read = parse_story(to_json(story));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->process, 42);
  EXPECT_EQ(read->job.metadata.name, "mnist");
  EXPECT_EQ(read->job.status.phase, job::Phase::kRunning);
  EXPECT_EQ(read->job.status.attempt, 1);
  ASSERT_EQ(read->events.size(), 1u);
  EXPECT_EQ(read->events[0].attempt, 1);
  EXPECT_EQ(read->events[0].time, kStart + seconds(5));
  for (const char* text : {"", "[]", "{}", "{\"job\":1}", "{\"job\":{"})
    EXPECT_FALSE(parse_story(text)) << text;
}

TEST(ReadEvent, takes_the_attempt_from_the_annotation) {
  const auto json = job::Json::parse(R"({"metadata": {"annotations": {"coxswain.dev/attempt": "3"}},
    "eventTime": "2026-01-01T00:00:07.5Z", "reason": "Restarting", "message": "m",
    "type": "Warning"})");
  const auto read = read_event(json);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, (PastEvent{kStart + seconds(7), 3, true, "Restarting", "m"}));
  EXPECT_FALSE(read_event(job::Json::object())) << "without a time";
}

}  // namespace
}  // namespace coxswain::inspect
