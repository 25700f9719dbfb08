#include "operator/job/classify.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "tests/support/job_builders.h"

namespace coxswain::test {

namespace {

using job::Cause;
using job::FailureAction;

struct Judgement {
  const char* seen;
  std::function<void(ObservedBuilder&)> see;
  std::optional<Cause> cause;
};

std::string text(const std::optional<Cause>& cause) { return cause ? to_text(*cause) : "none"; }

void expect_rows(const job::TrainingJob& job, const std::vector<Judgement>& rows) {
  for (const Judgement& row : rows) {
    auto seen = observed(job);
    row.see(seen);
    const auto loss = job::classify(job, seen.value().workers.front(), seen.value().now);
    EXPECT_EQ(text(loss ? std::optional(loss->cause) : std::nullopt), text(row.cause)) << row.seen;
  }
}

}  // namespace

// The table of docs/contract.md, "Causes".
TEST(Classify, follows_the_table) {
  expect_rows(
      make_job().running(),
      {
          {"pending", [](auto& o) { o.pending(0); }, {}},
          {"running", [](auto& o) { o.running(0); }, {}},
          {"done", [](auto& o) { o.succeeded(0); }, {}},
          {"preempted", [](auto& o) { o.running(0).disruption("PreemptionByScheduler"); },
           Cause::kPreemption},
          {"evicted", [](auto& o) { o.failed(0, 137).disruption("EvictionByEvictionAPI"); },
           Cause::kPreemption},
          {"deleted by someone", [](auto& o) { o.running(0).terminating(90); }, Cause::kPreemption},
          {"taint", [](auto& o) { o.running(0).disruption("DeletionByTaintManager"); },
           Cause::kNode},
          {"garbage collected", [](auto& o) { o.failed(0, {}).disruption("DeletionByPodGC"); },
           Cause::kNode},
          {"kubelet", [](auto& o) { o.failed(0, 137).disruption("TerminationByKubelet"); },
           Cause::kNode},
          {"no container statuses", [](auto& o) { o.failed(0, {}); }, Cause::kNode},
          {"out of memory, whatever it said",
           [](auto& o) { o.failed(0, 71).reason("OOMKilled").said("PeerLost"); }, Cause::kFailure},
          {"bad flags", [](auto& o) { o.failed(0, 2).said("Usage"); }, Cause::kFatal},
          {"bad input", [](auto& o) { o.failed(0, 65).said("BadInput"); }, Cause::kFatal},
          {"not finite", [](auto& o) { o.failed(0, 76).said("NotFinite"); }, Cause::kFatal},
          {"peers missing", [](auto& o) { o.failed(0, 69).said("PeersMissing"); }, Cause::kStartup},
          {"saved, asked by a drain",
           [](auto& o) { o.failed(0, 75).said("Saved").terminating(90); }, Cause::kPreemption},
          {"saved, asked by nobody", [](auto& o) { o.failed(0, 75).said("Saved"); }, Cause::kPeer},
          {"device at fault", [](auto& o) { o.failed(0, 72).said("Device"); }, Cause::kNode},
          {"foreign 72", [](auto& o) { o.failed(0, 72); }, Cause::kFailure},
          {"peer lost", [](auto& o) { o.failed(0, 71).said("PeerLost"); }, Cause::kPeer},
          {"internal", [](auto& o) { o.failed(0, 70).said("Internal"); }, Cause::kFailure},
          {"volume", [](auto& o) { o.failed(0, 74).said("Volume"); }, Cause::kFailure},
          {"killed", [](auto& o) { o.failed(0, 137).said("Signal"); }, Cause::kFailure},
          {"foreign 65", [](auto& o) { o.failed(0, 65); }, Cause::kFailure},
          {"foreign 71", [](auto& o) { o.failed(0, 71); }, Cause::kFailure},
          {"failed, then deleted by someone", [](auto& o) { o.failed(0, 1).terminating(120); },
           Cause::kFailure},
          {"deleted by someone, and ended of it", [](auto& o) { o.failed(0, 143).terminating(90); },
           Cause::kPreemption},
          {"a serving worker that is done", [](auto& o) { o.succeeded(1); }, Cause::kFailure},
      });
}

TEST(Classify, lets_the_first_matching_rule_decide) {
  auto job = make_job();
  job.rule({FailureAction::kRestart, {65}, {}, {}})
      .rule({FailureAction::kFail, {}, {"OOMKilled"}, {job::Role::kWorker}})
      .rule({FailureAction::kRestartIgnoringBackoffLimit, {}, {"PreemptionByScheduler"}, {}})
      .rule({FailureAction::kFail, {65, 66}, {}, {job::Role::kServer}})
      .running();
  expect_rows(
      job, {
               {"first", [](auto& o) { o.failed(0, 65).said("BadInput"); }, Cause::kFailure},
               {"reason", [](auto& o) { o.failed(0, 137).reason("OOMKilled"); }, Cause::kFatal},
               {"disruption", [](auto& o) { o.failed(0, 137).disruption("PreemptionByScheduler"); },
                Cause::kFailure},
               {"role", [](auto& o) { o.failed(0, 66).server(); }, Cause::kFatal},
               {"none", [](auto& o) { o.failed(0, 66); }, Cause::kFailure},
               {"well", [](auto& o) { o.running(0); }, {}},
           });
}

TEST(Classify, tells_where_and_why) {
  const auto job = make_job().running();
  auto seen = observed(job);
  seen.failed(1, 70).node("n-7").said("Internal", "Load", "[data] x is cut off");
  const auto loss = job::classify(job, seen.value().workers[0], seen.value().now);
  ASSERT_TRUE(loss);
  const job::Failure& failure = loss->failure;
  EXPECT_EQ(failure.pod, "mnist-worker-1");
  EXPECT_EQ(failure.node, "n-7");
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.exit_code, 70);
  EXPECT_EQ(failure.reason, "Internal");
  EXPECT_EQ(failure.phase, "Load");
  EXPECT_EQ(failure.message, "[data] x is cut off");
  EXPECT_EQ(failure.time, kStart + job::Seconds(50));
}

}  // namespace coxswain::test
