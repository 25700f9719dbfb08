#include "operator/job/status.h"
#include "operator/reconciler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/job_builders.h"
#include "trainer/contract/error.h"

namespace coxswain::test {

namespace {

// Writes down what is asked of it.
class NotedCluster : public cluster::Cluster {
 public:
  std::vector<std::string> calls;
  bool refuses = false;
  bool fails = false;

  std::optional<job::Rejection> trouble;
  job::Seconds clock_is_off{0};

  job::Observed observe(const job::TrainingJob& job) override {
    job::Observed seen = observed(job);
    seen.now += clock_is_off;
    seen.rejection = trouble;
    return seen;
  }
  bool record(const job::TrainingJob&, const job::Status& status,
              const std::vector<job::Event>& events) override {
    calls.push_back(fmt::format("record {} with {} events", to_text(status.phase), events.size()));
    return !refuses;
  }
  void apply(const job::TrainingJob&, std::span<const job::Action> actions) override {
    std::string call = "apply";
    for (const job::Action& action : actions) call += "; " + to_text(action);
    calls.push_back(call);
    if (fails) throw Error(ExitCode::kInternal, "[test] unreachable");
  }
};

}  // namespace

TEST(Reconciler, records_a_decision_and_comes_back_at_once) {
  NotedCluster cluster;
  EXPECT_EQ(Reconciler(cluster).reconcile(make_job()), job::Seconds(0));
  EXPECT_EQ(cluster.calls, std::vector<std::string>{"record Queued with 1 events"});
}

TEST(Reconciler, comes_back_at_once_when_the_record_is_refused) {
  NotedCluster cluster;
  cluster.refuses = true;
  EXPECT_EQ(Reconciler(cluster).reconcile(make_job()), job::Seconds(0));
}

TEST(Reconciler, acts_kind_by_kind_then_records_what_was_seen) {
  NotedCluster cluster;
  EXPECT_EQ(Reconciler(cluster).reconcile(make_job().queued()), std::nullopt);
  EXPECT_EQ(cluster.calls,
            (std::vector<std::string>{"apply; ensure service; ensure secret; ensure config map",
                                      "apply; create worker-0 attempt=0; create worker-1 attempt=0",
                                      "record Queued with 0 events"}));
}

TEST(Reconciler, stops_at_the_first_call_that_fails) {
  NotedCluster cluster;
  cluster.fails = true;
  EXPECT_THROW(Reconciler(cluster).reconcile(make_job().queued()), Error);
  EXPECT_EQ(cluster.calls.size(), 1u);
}

TEST(Reconciler, tells_what_keeps_failing_before_it_tries_again) {
  NotedCluster cluster;
  cluster.fails = true;
  cluster.trouble = job::Rejection{"NoAnswer", "create worker-0: no answer"};
  EXPECT_EQ(Reconciler(cluster).reconcile(make_job().queued()), job::Seconds(0));
  EXPECT_EQ(cluster.calls, std::vector<std::string>{"record Queued with 1 events"});
  auto job = make_job().queued();
  const job::Observed seen = observed(job);
  job::set_condition(job.status(), job::condition::kResourcesRejected,
                     {true, cluster.trouble->reason, cluster.trouble->message}, {seen.now, 1});
  EXPECT_THROW(Reconciler(cluster).reconcile(job), Error) << "it has been told";
}

TEST(Reconciler, a_clock_that_is_set_back_does_not_hold_what_waits_to_be_said) {
  NotedCluster cluster;
  const auto patience = [](const job::Status&, const job::Status&) { return job::Seconds(30); };
  Reconciler reconciler(cluster, patience, [](const job::TrainingJob& job, const job::Observed&) {
    job::Plan plan{.status = job.status, .actions = {}, .events = {}, .requeue_after = {}};
    plan.status.observed_generation = 9;
    return plan;
  });
  const auto job = make_job();
  EXPECT_EQ(reconciler.reconcile(job), job::Seconds(30));
  cluster.clock_is_off = job::Seconds(-3600);
  EXPECT_EQ(reconciler.reconcile(job), job::Seconds(30));
  cluster.clock_is_off += job::Seconds(30);
  EXPECT_EQ(reconciler.reconcile(job), std::nullopt);
  EXPECT_EQ(cluster.calls.size(), 1u);
}

TEST(Reconciler, is_quiet_when_there_is_nothing_to_say) {
  NotedCluster cluster;
  auto job = make_job().suspended();
  job.status().observed_generation = 1;
  job.status().keys_secret = "mnist-keys-1";
  EXPECT_EQ(Reconciler(cluster).reconcile(job), std::nullopt);
  EXPECT_EQ(cluster.calls, std::vector<std::string>{});
}

}  // namespace coxswain::test
