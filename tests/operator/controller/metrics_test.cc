#include "operator/controller/metrics.h"

#include <gtest/gtest.h>

namespace coxswain::controller {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Whether the text has this line.
testing::AssertionResult has(const Metrics& metrics, const std::string& line) {
  const std::string text = metrics.text();
  if (("\n" + text).find("\n" + line + "\n") != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << line << " is not in\n" << text;
}

TEST(Metrics, counts_calls_by_verb_resource_and_code) {
  Metrics metrics;
  metrics.count_call({kube::Method::kGet, "pods", 200, microseconds(1500)});
  metrics.count_call({kube::Method::kPost, "pods", 201, microseconds(1500)});
  metrics.count_call({kube::Method::kPost, "pods", 409, microseconds(1500)});
  metrics.count_call({kube::Method::kPost, "pods", 409, microseconds(1500)});
  metrics.count_call({kube::Method::kPut, "leases", 0, microseconds(1500)});
  metrics.count_call({kube::Method::kPatch, "trainingjobs/status", 200, microseconds(1500)});
  metrics.count_call({kube::Method::kDelete, "pods", 7777, microseconds(1500)});
  metrics.count_call({kube::Method::kGet, "pods/watch", 200, std::chrono::seconds(50)});
  const std::string total = "coxswain_api_requests_total";
  EXPECT_TRUE(has(metrics, total + R"({code="200",resource="pods",verb="get"} 1)"));
  EXPECT_TRUE(has(metrics, total + R"({code="201",resource="pods",verb="create"} 1)"));
  EXPECT_TRUE(has(metrics, total + R"({code="409",resource="pods",verb="create"} 2)"));
  EXPECT_TRUE(has(metrics, total + R"({code="0",resource="leases",verb="update"} 1)"));
  EXPECT_TRUE(
      has(metrics, total + R"({code="200",resource="trainingjobs/status",verb="patch"} 1)"));
  EXPECT_TRUE(has(metrics, total + R"({code="other",resource="pods",verb="delete"} 1)"));
  EXPECT_TRUE(has(metrics, total + R"({code="200",resource="pods",verb="watch"} 1)"));
  const std::string bucket = "coxswain_api_request_seconds_bucket";
  EXPECT_TRUE(has(metrics, bucket + R"({verb="create",le="0.001"} 0)"));
  EXPECT_TRUE(has(metrics, bucket + R"({verb="create",le="0.0025"} 3)"));
  EXPECT_TRUE(has(metrics, bucket + R"({verb="get",le="60"} 1)")) << "a watch is no slow answer";
}

TEST(Metrics, those_without_labels_are_there_from_the_start) {
  const Metrics metrics;
  for (const char* line :
       {R"(coxswain_reconcile_total{result="success"} 0)",
        R"(coxswain_reconcile_total{result="error"} 0)", "coxswain_reconcile_seconds_count 0",
        "coxswain_reconcile_cpu_seconds_count 0", "coxswain_queue_wait_seconds_count 0",
        "coxswain_queue_depth 0", "coxswain_is_leader 0", "coxswain_pods 0",
        "coxswain_events_dropped_total 0", "# TYPE coxswain_reconcile_seconds histogram"})
    EXPECT_TRUE(has(metrics, line));
}

TEST(Metrics, observes_passes_and_waits_in_seconds) {
  Metrics metrics;
  metrics.count_reconcile(milliseconds(300), milliseconds(2), false);
  metrics.count_reconcile(milliseconds(20), milliseconds(2), true);
  metrics.count_queue_wait(milliseconds(1500));
  EXPECT_TRUE(has(metrics, R"(coxswain_reconcile_total{result="success"} 1)"));
  EXPECT_TRUE(has(metrics, R"(coxswain_reconcile_total{result="error"} 1)"));
  EXPECT_TRUE(has(metrics, R"(coxswain_reconcile_seconds_bucket{le="0.25"} 1)"));
  EXPECT_TRUE(has(metrics, R"(coxswain_reconcile_seconds_bucket{le="0.5"} 2)"));
  EXPECT_TRUE(has(metrics, R"(coxswain_reconcile_cpu_seconds_bucket{le="0.0025"} 2)"));
  EXPECT_TRUE(has(metrics, R"(coxswain_queue_wait_seconds_bucket{le="1"} 0)"));
  EXPECT_TRUE(has(metrics, "coxswain_queue_wait_seconds_sum 1.5"));
}

TEST(Metrics, a_phase_that_no_job_has_any_more_is_zero) {
  Metrics metrics;
  metrics.set_jobs({{"Running", 3}, {"Queued", 1}});
  EXPECT_TRUE(has(metrics, R"(coxswain_jobs{phase="Running"} 3)"));
  metrics.set_jobs({{"Queued", 2}});
  EXPECT_TRUE(has(metrics, R"(coxswain_jobs{phase="Running"} 0)"));
  EXPECT_TRUE(has(metrics, R"(coxswain_jobs{phase="Queued"} 2)"));
}

TEST(Metrics, counts_and_gauges) {
  Metrics metrics;
  metrics.set_queue_depth(5);
  metrics.set_leader(true);
  metrics.set_pods(4096);
  metrics.count_restart("preemption");
  metrics.count_restart("preemption");
  metrics.count_finished("Succeeded");
  metrics.count_dropped_event();
  EXPECT_TRUE(has(metrics, "coxswain_queue_depth 5"));
  EXPECT_TRUE(has(metrics, "coxswain_is_leader 1"));
  EXPECT_TRUE(has(metrics, "coxswain_pods 4096"));
  EXPECT_TRUE(has(metrics, R"(coxswain_restarts_total{cause="preemption"} 2)"));
  EXPECT_TRUE(has(metrics, R"(coxswain_jobs_finished_total{result="Succeeded"} 1)"));
  EXPECT_TRUE(has(metrics, "coxswain_events_dropped_total 1"));
  metrics.set_leader(false);
  EXPECT_TRUE(has(metrics, "coxswain_is_leader 0"));
}

}  // namespace

}  // namespace coxswain::controller
