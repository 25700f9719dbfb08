#include "operator/job/observation.h"

#include <gtest/gtest.h>

#include <functional>

#include "operator/job/conditions.h"
#include "tests/support/job_builders.h"

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
       [](Status& s) {
         set_condition(s, job::condition::kRunning, {true, "AllReady", ""}, kNow);
       },
       Seconds(0)},
      {"refused",
       [](Status& s) {
         set_condition(s, job::condition::kResourcesRejected, {true, "Forbidden", ""}, kNow);
       },
       Seconds(0)},
      {"a new checkpoint",
       [](Status& s) {
         s.checkpoint = job::CheckpointStatus{7, "", "", 1};
       },
       Seconds(0)},
      {"a pod can't get its image",
       [](Status& s) {
         set_condition(s, job::condition::kReady, {false, "ImagePullBackOff", ""}, kNow);
       },
       Seconds(4)},
      {"one more is ready", [](Status& s) { ++s.replicas[job::Role::kWorker].ready; }, Seconds(4)},
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
