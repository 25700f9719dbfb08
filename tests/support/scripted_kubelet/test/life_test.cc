#include "tests/support/scripted_kubelet/life.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/contract/error.h"

namespace coxswain::scripted {
namespace {

using ::testing::HasSubstr;

Json pod(const std::string& script, int attempt, int index, const std::string& role = "worker") {
  Json json = {{"metadata",
                {{"labels",
                  {{"coxswain.dev/attempt", std::to_string(attempt)},
                   {"training.kubeflow.org/replica-index", std::to_string(index)},
                   {"training.kubeflow.org/replica-type", role}}}}}};
  if (!script.empty()) json["metadata"]["annotations"] = {{kLifeAnnotation, script}};
  return json;
}

TEST(Life, the_first_rule_that_fits_applies) {
  const std::string script = R"([{"attempt":0,"index":1,"exit":137,"reason":"OOMKilled"},
                                 {"role":"server","ready_after_ms":70},
                                 {"attempt":0,"exit":1,"exit_after_ms":500}])";
  const Life killed = life_of(pod(script, 0, 1), {}, {});
  EXPECT_EQ(killed.exit_code, 137);
  EXPECT_EQ(killed.reason, "OOMKilled");
  EXPECT_EQ(killed.exit_after, milliseconds(0));
  EXPECT_EQ(life_of(pod(script, 3, 0, "server"), {}, {}).ready_after, milliseconds(70));
  EXPECT_EQ(life_of(pod(script, 0, 0), {}, {}).exit_after, milliseconds(500));
  EXPECT_EQ(life_of(pod(script, 1, 1), {}, {}), Life{});
}

TEST(Life, pods_without_a_script_live_by_the_common_rules) {
  const std::vector<Rule> rules = parse_rules(R"({"role":"launcher","exit_after_ms":5})", {});
  Json launcher = {{"metadata", {{"labels", {{"training.kubeflow.org/job-role", "launcher"}}}}}};
  EXPECT_EQ(life_of(launcher, rules, {}).exit_after, milliseconds(5));
  EXPECT_EQ(life_of(pod("", 0, 0), rules, {}), Life{});
  EXPECT_EQ(life_of(pod("[]", 0, 0, "launcher"), rules, {}), Life{});
}

TEST(Life, defaults_hold_where_a_rule_says_nothing) {
  const Life slow{.ready_after = milliseconds(40)};
  EXPECT_EQ(life_of(pod("", 0, 0), {}, slow).ready_after, milliseconds(40));
  EXPECT_EQ(life_of(pod(R"({"exit":1})", 0, 0), {}, slow).ready_after, milliseconds(40));
  EXPECT_EQ(life_of(pod(R"({"ready_after_ms":1})", 0, 0), {}, slow).ready_after, milliseconds(1));
}

TEST(Life, an_end_needs_no_time) {
  for (const char* script :
       {R"({"exit":0})", R"({"phase":"Failed"})", R"({"vanish":true})",
        R"({"disruption":"EvictionByEvictionAPI"})", R"({"no_container_status":true})"})
    EXPECT_EQ(life_of(pod(script, 0, 0), {}, {}).exit_after, milliseconds(0)) << script;
  EXPECT_FALSE(life_of(pod(R"({"stop_ms":5})", 0, 0), {}, {}).exit_after);
}

TEST(Life, bad_scripts_are_refused_by_name) {
  const std::pair<const char*, const char*> table[] = {
      {"{", "no JSON"},
      {R"([{"exitt":1}])", "unknown key exitt"},
      {R"({"exit":"1"})", "exit: not an integer"},
      {R"({"vanish":1})", "vanish: not true or false"},
      {R"({"role":1})", "role: not a string"},
      {R"({"phase":"Done"})", "write Failed or Succeeded"},
      {R"([1])", "a rule is not an object"}};
  for (const auto& [script, message] : table) {
    try {
      parse_rules(script, {});
      ADD_FAILURE() << script << " was taken";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(message)) << script;
    }
  }
}

struct Row {
  const char* name;
  Life life;
  Moment moment;
  Step step;
};

TEST(NextStep, follows_the_script) {
  const milliseconds none(0);
  const Life ends{.exit_after = milliseconds(50)};
  const Life slow_stop{.stop_after = milliseconds(20)};
  const Row table[] = {
      {"is bound", {}, {Stage::kNew, false, none, {}}, {Act::kBind}},
      {"is refused", {.unschedulable = "no"}, {Stage::kNew, false, none, {}}, {Act::kRefuse}},
      {"runs at once", {}, {Stage::kBound, true, none, {}}, {Act::kRun}},
      {"runs later",
       {.ready_after = milliseconds(30)},
       {Stage::kBound, true, milliseconds(10), {}},
       {Act::kWait, milliseconds(20)}},
      {"is held", {.waiting = "ImagePullBackOff"}, {Stage::kBound, true, none, {}}, {Act::kHold}},
      {"runs on", {}, {Stage::kRunning, true, none, {}}, {Act::kNothing}},
      {"will end",
       ends,
       {Stage::kRunning, true, milliseconds(49), {}},
       {Act::kWait, milliseconds(1)}},
      {"ends", ends, {Stage::kRunning, true, milliseconds(50), {}}, {Act::kEnd}},
      {"vanishes",
       {.exit_after = none, .vanish = true},
       {Stage::kRunning, true, none, {}},
       {Act::kRemove}},
      {"rests", ends, {Stage::kEnded, true, milliseconds(999), {}}, {Act::kNothing}},
      {"stays stuck", {.waiting = "x"}, {Stage::kStuck, true, none, {}}, {Act::kNothing}},
      {"goes when told", {}, {Stage::kRunning, true, none, none}, {Act::kRemove}},
      {"goes when held", {.waiting = "x"}, {Stage::kStuck, true, none, none}, {Act::kRemove}},
      {"takes its time to stop",
       slow_stop,
       {Stage::kRunning, true, none, milliseconds(5)},
       {Act::kWait, milliseconds(15)}},
      {"says how it stopped", {.stop_exit = 75}, {Stage::kRunning, true, none, none}, {Act::kStop}},
      {"is cleaned up after that",
       {.stop_exit = 75},
       {Stage::kEnded, true, milliseconds(100), none},
       {Act::kWait, milliseconds(200)}},
      {"goes after that",
       {.stop_exit = 75},
       {Stage::kEnded, true, milliseconds(300), none},
       {Act::kRemove}},
      {"ignores it", {.ignore_term = true}, {Stage::kRunning, true, none, none}, {Act::kNothing}},
      {"ends while it ignores it",
       {.exit_after = none, .ignore_term = true},
       {Stage::kRunning, true, none, none},
       {Act::kEnd}},
  };
  for (const Row& row : table) EXPECT_EQ(next_step(row.life, row.moment), row.step) << row.name;
}

}  // namespace
}  // namespace coxswain::scripted
