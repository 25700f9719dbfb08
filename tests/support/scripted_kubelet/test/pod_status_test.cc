#include "tests/support/scripted_kubelet/pod_status.h"

#include <gtest/gtest.h>

namespace coxswain::scripted {
namespace {

constexpr const char* kNow = "2026-01-02T03:04:05Z";

Json patch(const Life& life, Act act) {
  const Json pod = {{"metadata", {{"uid", "u-1"}}},
                    {"spec", {{"containers", Json::array({{{"name", "trainer"}}})}}}};
  return status_patch(pod, life, act, kNow);
}

// "Ready=True", "DisruptionTarget=True EvictionByEvictionAPI"
std::string condition(const Json& patch, const std::string& type) {
  for (const Json& each : patch.at("status").at("conditions"))
    if (each.at("type") == type)
      return each.at("status").get<std::string>() + " " + each.value("reason", "");
  return "none";
}

const Json& state(const Json& patch) {
  return patch.at("status").at("containerStatuses").at(0).at("state");
}

TEST(PodStatus, means_one_pod_alone) {
  EXPECT_EQ(patch({}, Act::kRun).at("metadata"), Json({{"uid", "u-1"}}));
}

TEST(PodStatus, a_running_pod_is_ready) {
  const Json running = patch({}, Act::kRun);
  EXPECT_EQ(running["status"]["phase"], "Running");
  EXPECT_EQ(condition(running, "Ready"), "True ");
  EXPECT_EQ(condition(running, "PodScheduled"), "True ");
  EXPECT_EQ(state(running), Json({{"running", {{"startedAt", kNow}}}}));
  EXPECT_FALSE(running["status"].contains("podIP"));
  EXPECT_EQ(patch({.ip = "10.0.0.9"}, Act::kRun)["status"]["podIP"], "10.0.0.9");
}

TEST(PodStatus, an_end_says_how) {
  const Json failed =
      patch({.exit_code = 137, .reason = "OOMKilled", .message = "words"}, Act::kEnd);
  EXPECT_EQ(failed["status"]["phase"], "Failed");
  EXPECT_EQ(state(failed)["terminated"]["exitCode"], 137);
  EXPECT_EQ(state(failed)["terminated"]["reason"], "OOMKilled");
  EXPECT_EQ(state(failed)["terminated"]["message"], "words");
  EXPECT_EQ(condition(failed, "Ready"), "False PodFailed");
  EXPECT_EQ(condition(failed, "DisruptionTarget"), "none");
  const Json good = patch({}, Act::kEnd);
  EXPECT_EQ(good["status"]["phase"], "Succeeded");
  EXPECT_EQ(state(good)["terminated"]["reason"], "Completed");
}

TEST(PodStatus, the_phase_may_contradict_the_exit_code) {
  EXPECT_EQ(patch({.phase = "Failed"}, Act::kEnd)["status"]["phase"], "Failed");
  EXPECT_EQ(patch({.exit_code = 1, .phase = "Succeeded"}, Act::kEnd)["status"]["phase"],
            "Succeeded");
}

TEST(PodStatus, a_disruption_and_a_lost_container_show) {
  const Json evicted = patch({.exit_code = 143, .disruption = "EvictionByEvictionAPI"}, Act::kEnd);
  EXPECT_EQ(condition(evicted, "DisruptionTarget"), "True EvictionByEvictionAPI");
  const Json lost = patch({.exit_code = 1, .no_container_status = true}, Act::kEnd);
  EXPECT_TRUE(lost["status"]["containerStatuses"].is_null());
}

TEST(PodStatus, what_keeps_a_pod_from_running_shows) {
  EXPECT_EQ(condition(patch({.unschedulable = "0/3"}, Act::kRefuse), "PodScheduled"),
            "False Unschedulable");
  EXPECT_EQ(state(patch({.waiting = "ImagePullBackOff"}, Act::kHold)),
            Json({{"waiting", {{"reason", "ImagePullBackOff"}}}}));
}

TEST(PodStatus, a_pod_that_was_stopped_says_its_own_code) {
  const Json stopped = patch({.exit_code = 9, .stop_exit = 75}, Act::kStop);
  EXPECT_EQ(state(stopped)["terminated"]["exitCode"], 75);
  EXPECT_EQ(stopped["status"]["phase"], "Failed");
}

}  // namespace
}  // namespace coxswain::scripted
