#include "operator/job/observation.h"

#include <gtest/gtest.h>

#include <functional>

#include "operator/job/job_reader.h"
#include "operator/job/status.h"
#include "tests/support/job_builders.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::test {
namespace {

using job::Seconds;
using job::Status;

constexpr job::Stamp kNow{kStart, 1};

TEST(Patience, depends_on_what_there_is_to_tell) {
  Status before = job::TrainingJob(make_job().queued()).status;
  struct Row {
    const char* what;
    std::function<void(Status&)> change;
    Seconds patience;
  };
  const Row rows[] = {
      {"every pod is Ready",
       [](Status& s) { set_condition(s, job::condition::kRunning, {true, "AllReady", ""}, kNow); },
       Seconds(0)},
      {"refused",
       [](Status& s) {
         set_condition(s, job::condition::kResourcesRejected, {true, "Forbidden", ""}, kNow);
       },
       Seconds(0)},
      {"a new checkpoint", [](Status& s) { s.checkpoint = job::CheckpointStatus{7, "", "", 1}; },
       Seconds(0)},
      {"a pod can't get its image",
       [](Status& s) {
         set_condition(s, job::condition::kReady, {false, "ImagePullBackOff", ""}, kNow);
       },
       Seconds(4)},
      {"one more is ready", [](Status& s) { ++s.replicas[job::Role::kWorker].ready; }, Seconds(30)},
      {"pods found nodes",
       [](Status& s) {
         clear_condition(s, job::condition::kQueued, "Scheduled", kNow);
         s.phase = job::Phase::kStarting;
       },
       Seconds(30)},
      {"an edit was seen", [](Status& s) { ++s.observed_generation; }, Seconds(4)},
      {"pods were made",
       [](Status& s) {
         ++s.replicas[job::Role::kWorker].active;
         set_condition(s, job::condition::kReady, {false, "NotReady", "worker-0"}, kNow);
       },
       Seconds(30)},
  };
  for (const Row& row : rows) {
    Status after = before;
    row.change(after);
    EXPECT_EQ(patience(before, after).count(), row.patience.count()) << row.what;
  }
}

// The node's clock is an hour ahead, an hour behind: neither stops the progress, nor lets all of it
// through.
TEST(Observation, spaces_progress_by_the_clock_of_rank_zero) {
  const auto at = [](int seconds) { return to_rfc3339(kStart + Seconds(seconds)); };
  struct Row {
    int stored, told;
    bool entered;
  };
  for (const int skew : {-3600, 0, 3600})
    for (const Row row : {Row{0, 29, false}, {0, 30, true}, {20, 10, true}}) {
      auto job = make_job().running();
      job.status().progress.emplace().time = at(skew + row.stored);
      job.status().checkpoint = job::CheckpointStatus{1, at(skew + row.stored), "step-1", 9};
      auto seen = observed(job);
      seen.running(0).running(1);
      seen.value().progress.emplace().time = at(skew + row.told);
      seen.value().progress->step = 7;
      seen.value().checkpoint = job::CheckpointStatus{2, at(skew + row.told), "step-2", 9};
      const auto status = job::with_observations(job, seen, job::view_gang(job, seen));
      EXPECT_EQ(status.progress->step == 7, row.entered) << skew << " " << row.told;
      EXPECT_EQ(status.checkpoint->step == 2, row.entered) << skew << " " << row.told;
    }
}

TEST(Observation, takes_the_checkpoint_that_rank_zero_saved_when_it_was_told_to_leave) {
  auto job = make_job().running();
  auto seen = observed(job);
  seen.failed(0, 75).said("Saved").terminating(90);
  auto& message = *seen.value().workers[0].termination_message;
  message.checkpoint = job::CheckpointStatus{1200, "2026-01-31T12:00:00Z", "step-00001200.g1", 9};
  job::TrainingJob suspended = static_cast<const job::TrainingJob&>(job);
  suspended.status.workers = 0;  // its gang is no longer wanted
  const auto status = with_observations(suspended, seen, view_gang(suspended, seen));
  ASSERT_TRUE(status.checkpoint);
  EXPECT_EQ(status.checkpoint->step, 1200);
}

}  // namespace
}  // namespace coxswain::test
