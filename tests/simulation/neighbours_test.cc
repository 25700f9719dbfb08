#include <fmt/format.h>
#include <gtest/gtest.h>

#include "operator/job/job_reader.h"
#include "tests/simulation/same_end.h"

// What stands beside a job: pods of the one before, its group in the queue, the operator's clock.
namespace coxswain::test {

// A pod on a dead node kept the next job of the name waiting without a word. It is another job's:
// it is not taken away by force, which is a law, but told.
TEST(Predecessors, that_do_not_go_are_told_with_what_to_do) {
  const Workload life = to_success(
      "stuck predecessor", mpi(2),
      {runs(0, 2, make_again_beside_a_mute_pod),
       {"it is told", has_condition("ResourcesRejected"),
        [](Scene& scene) {
          for (const Json& condition : scene.status_of(kJob).at("conditions")) {
            const std::string type = condition.at("type");
            const std::string reason = condition.at("reason");
            if (type == "ResourcesRejected") {
              EXPECT_EQ(reason, "PredecessorStuck");
            } else if (type == "Ready") {
              EXPECT_EQ(reason, "WaitsForPredecessor");
            }
          }
          EXPECT_TRUE(scene.pod(worker(1)));
          scene.server.remove("pods", fmt::format("{}/{}", kNamespace, worker(1)), job::Seconds(0));
        }}},
      0, 2);
  expect_same_end(life);
}

// Groups of jobs that wanted no pods kept their places in the queue; one that was changed kept what
// it asked for before.
TEST(PodGroups, go_with_the_gang_and_ask_for_what_it_does) {
  const auto asks_for = [](const Scene& scene) {
    const Object group = scene.server.find("podgroups", fmt::format("{}/{}", kNamespace, kJob));
    return group ? group->at("spec").at("minResources") : Json();
  };
  const auto policy = [](bool suspend, const Json& resources) {
    return Json{
        {"runPolicy", {{"suspend", suspend}, {"schedulingPolicy", {{"minResources", resources}}}}}};
  };
  Json spec = with(mpi(2), {{"schedulingPolicy", {{"gang", "Volcano"}}}});
  spec.merge_patch(policy(false, {{"cpu", 2}, {"example.com/gpu", 2}}));
  const Json only_cpu = {{"cpu", 2}, {"example.com/gpu", nullptr}};
  const Workload life = to_success(
      "resumed at once", spec,
      {runs(0, 2,
            [&](Scene& scene) {
              EXPECT_EQ(asks_for(scene), Json({{"cpu", 2}, {"example.com/gpu", 2}}));
              scene.mute(worker(1));  // its end takes time
              scene.edit_spec(kJob, policy(true, only_cpu));
            }),
       {"it is suspended", has_condition("Suspended"), edit(policy(false, only_cpu))},
       runs(1, 2,
            [&](Scene& scene) {
              EXPECT_EQ(asks_for(scene), Json({{"cpu", 2}}));
              scene.edit_spec(kJob, policy(true, only_cpu));
            }),
       reached("Suspended", 0),
       {"its group is gone", [&](const Scene& scene) { return asks_for(scene).is_null(); },
        edit(policy(false, only_cpu))}},
      2, 2);
  const Json status = expect_same_end(life);
  EXPECT_FALSE(simulate(life, {}).end.contains("podgroups"));
  EXPECT_FALSE(status.contains("podGroup"));
}

// deletionTimestamp is the API server's time: an operator whose clock was ahead took pods away
// within their grace, one whose clock was behind waited for as long as that.
TEST(Clocks, of_the_operator_may_be_an_hour_off) {
  Workload life = workload_named("node_lost");
  const Outcome usual = simulate(life, {});
  for (const int skew : {-3600, 3600}) {
    life.skew = job::Seconds(skew);
    const Outcome outcome = simulate(life, {});
    auto wrong = outcome.breach;
    if (!wrong) wrong = difference(usual, outcome, {});
    EXPECT_FALSE(wrong) << skew << ": " << *wrong;
  }
}

}  // namespace coxswain::test
