#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "operator/job/job_reader.h"
#include "tests/simulation/same_end.h"

// Bugs that other operators had, each with the circumstances that brought it to light. Simulate()
// checks the laws; the end and the creates and deletes must be those of the undisturbed life.
namespace coxswain::test {

namespace {

Plans at_every_event(const Outcome& life, Fault fault, int seconds) {
  Plans plans;
  for (const char* watched : {"pods", "trainingjobs"})
    for (int at = 0; at < life.revisions.at(watched); ++at)
      plans.push_back({.fault = fault, .at = at, .watched = watched, .seconds = seconds});
  return plans;
}

Plans late(const Outcome& life) { return at_every_event(life, Fault::kDelay, 30); }

Plans at_every_request(const Outcome& life, const std::string& beginning, const FaultPlan& fault) {
  Plans plans;
  for (std::size_t at = 0; at < life.requests.size(); ++at) {
    if (!life.requests[at].starts_with(beginning)) continue;
    plans.push_back(fault);
    plans.back().at = static_cast<int>(at);
  }
  EXPECT_FALSE(plans.empty()) << beginning;
  return plans;
}

Plans crashes(const Outcome& life) {
  Plans plans;
  for (const Point point : {Point::kBefore, Point::kApplied, Point::kReplied})
    std::ranges::copy(at_every_request(life, "", {.fault = Fault::kCrash, .point = point}),
                      std::back_inserter(plans));
  return plans;
}

int restarts(const Json& status, const std::string& cause) {
  return status.value("restarts", Json::object()).value(cause, 0);
}

constexpr const char* kPods = "POST /api/v1/namespaces/default/pods";

}  // namespace

// kubernetes#105200: a failed pod was counted again while the cache was behind.
TEST(Ancestor, A01_pod_counted_twice) {
  EXPECT_EQ(restarts(expect_same_end(workload_named("fails_once"), late), "failure"), 1);
}

// kubernetes#130103: two pods ran at once when a watch was late.
TEST(Ancestor, A02_two_pods_for_one_rank) { expect_same_end(workload_named("mpi_1"), late); }

// kubernetes#125410: a pod whose phase went back and forth made every status write invalid.
TEST(Ancestor, A03_phase_goes_back_and_forth) {
  const Json status =
      expect_same_end({"flips",
                       {make(env(2)),
                        runs(0, 2, end(0, 0)),
                        {"rank 0 is done",
                         [](const Scene& scene) {
                           return scene.status_of(kJob).value("succeededRanks", "") == "0";
                         },
                         end(0, 1)},
                        {"it went on", always(), end(0, 0)},
                        {"and back", always(), end(1, 0)},
                        reached("Succeeded", 0)}});
  EXPECT_EQ(status.value("attempt", 0), 0);
}

// kubernetes#109486: declared finished while creates were under way.
TEST(Ancestor, A04_finished_before_its_creates_were_seen) {
  expect_same_end(workload_named("env_2"), [](const Outcome& life) {
    return at_every_request(
        life, kPods, {.fault = Fault::kError, .point = Point::kApplied, .code = 0, .tries = 4});
  });
}

// kubernetes#142142: deleted and made again under the same name while a status was written.
TEST(Ancestor, A05_made_again_under_the_same_name) {
  expect_same_end(workload_named("made_again"), crashes);
  for (int seconds = 0; seconds < 14; ++seconds) {
    const auto is_time = [seconds, from = std::optional<job::Time>()](const Scene& scene) mutable {
      if (!from) from = scene.server.now;
      return scene.server.now >= *from + job::Seconds(seconds);
    };
    SCOPED_TRACE(seconds);
    expect_same_end(to_success("again", mpi(2),
                               {{"some seconds passed", is_time,
                                 [](Scene& scene) {
                                   scene.delete_job(kJob);
                                   scene.create_job(kJob, mpi(2));
                                 }}},
                               0, 2));
  }
}

// kubernetes#114650: a restart forgot the back-off. That no pod is made within it is a law.
TEST(Ancestor, A06_back_off_survives_a_restart) {
  EXPECT_EQ(restarts(expect_same_end(workload_named("backs_off"), crashes), "failure"), 2);
}

// kubernetes#40838: pods were sorted by creationTimestamp, which clocks make wrong.
TEST(Ancestor, A07_creation_times_mean_nothing) {
  const Act shuffle = [](Scene& scene) {
    for (int i = 0; i < 2; ++i)
      scene.server.edit("pods", fmt::format("{}/{}", kNamespace, worker(i)), [&](Json& pod) {
        pod["metadata"]["creationTimestamp"] =
            i == 0 ? "2099-01-01T00:00:00Z" : "1999-01-01T00:00:00Z";
      });
    scene.end_pod(worker(1), 137);
  };
  EXPECT_EQ(expect_same_end(to_success("skewed", mpi(2), {runs(0, 2, shuffle)}, 1, 2)),
            expect_same_end(workload_named("fails_once")));
}

// volcano#5773: the late clean-up of an old job hit the new one of the same name.
TEST(Ancestor, A08_late_clean_up_of_the_job_before) {
  expect_same_end(workload_named("made_again_at_the_end"), [](const Outcome& life) {
    return at_every_request(life, "DELETE", {.fault = Fault::kError, .code = 500, .tries = 4});
  });
}

// kubeflow/trainer#2981: children of a succeeded job were made again when they were deleted.
TEST(Ancestor, A09_children_of_a_succeeded_job_deleted) {
  const Outcome outcome =
      simulate({"deleted_after_success",
                {make(with(env(2), {{"cleanPodPolicy", "None"}})),
                 runs(0, 2, end_all(2, 0)),
                 reached("Succeeded", 0,
                         [](Scene& scene) {
                           for (int i = 0; i < 2; ++i) scene.delete_pod(worker(i));
                         }),
                 {"they are gone", [](const Scene& scene) { return scene.pods().empty(); }}}},
               {});
  EXPECT_FALSE(outcome.breach) << *outcome.breach;
  EXPECT_EQ(outcome.effects.at("create pods/mnist-worker-0"), 1);
}

// kubeflow/trainer#3737: the same for a failed job, which ran again.
TEST(Ancestor, A10_children_of_a_failed_job_deleted) {
  const Outcome outcome =
      simulate({"deleted_after_failure",
                {make(with(env(2), {{"cleanPodPolicy", "None"}, {"backoffLimit", 0}})),
                 runs(0, 2, end_all(2, 1)),
                 reached("Failed", 0,
                         [](Scene& scene) {
                           for (int i = 0; i < 2; ++i) scene.delete_pod(worker(i));
                         }),
                 {"they are gone", [](const Scene& scene) { return scene.pods().empty(); }}}},
               {});
  EXPECT_FALSE(outcome.breach) << *outcome.breach;
  EXPECT_EQ(outcome.effects.at("create pods/mnist-worker-0"), 1);
}

// kubeflow/trainer#2072: a pod of a dead node was Terminating, and the job Restarting, for ever.
TEST(Ancestor, A11_node_lost) {
  EXPECT_EQ(restarts(expect_same_end(workload_named("node_lost"), crashes), "node"), 1);
}

// kubeflow/trainer#1570: Failed by a node's shutdown, without container statuses, meant nothing.
TEST(Ancestor, A12_node_shut_down) {
  EXPECT_EQ(restarts(expect_same_end(workload_named("shut_down"), late), "node"), 1);
}

// kubeflow/trainer#1560: a pod that somebody deleted failed the job.
TEST(Ancestor, A13_deleted_pod_is_no_failure) {
  const Json status = expect_same_end(workload_named("user_deletes_pod"), late);
  EXPECT_EQ(restarts(status, "failure"), 0);
  EXPECT_EQ(restarts(status, "preemption"), 1);
}

// kubeflow/trainer#1306: made again while a pod of before was terminating, it waited for minutes.
TEST(Ancestor, A14_name_taken_by_a_terminating_pod) {
  const auto since = std::make_shared<job::Time>();
  const Workload life = to_success(
      "terminating", mpi(2),
      {runs(0, 2, make_again_beside_a_mute_pod),
       {"one pod is terminating",
        [](const Scene& scene) {
          return scene.pod(worker(1)) && is_terminating(*scene.pod(worker(1)));
        },
        [since](Scene& scene) {
          scene.server.remove("pods", fmt::format("{}/{}", kNamespace, worker(1)), job::Seconds(0));
          *since = scene.server.now;
        }},
       {"both are made", [](const Scene& scene) { return scene.pods().size() == 2; },
        [since](Scene& scene) { EXPECT_LE(scene.server.now, *since + job::Seconds(5)); }}},
      0, 2);
  expect_same_end(life);
}

// kubeflow/trainer#2453: a drain deleted pods that had succeeded, and they ran again.
TEST(Ancestor, A15_succeeded_pod_deleted) {
  const Workload life = {
      "drained",
      {make(env(2)),
       runs(0, 2, end(0, 0)),
       {"rank 0 is done",
        [](const Scene& scene) { return scene.status_of(kJob).value("succeededRanks", "") == "0"; },
        [](Scene& scene) { scene.delete_pod(worker(0)); }},
       {"it is gone", [](const Scene& scene) { return scene.pods().size() == 1; }, end(1, 0)},
       reached("Succeeded", 0)}};
  EXPECT_EQ(expect_same_end(life).value("attempt", 0), 0);
  EXPECT_EQ(simulate(life, {}).effects.at("create pods/mnist-worker-0"), 1);
}

// kubeflow/trainer#366: one pod that couldn't be deleted held up all.
TEST(Ancestor, A16_one_delete_fails_for_long) {
  expect_same_end(workload_named("fails_once"), [](const Outcome& life) {
    return at_every_request(life, "DELETE", {.fault = Fault::kError, .code = 500, .tries = 80});
  });
}

// ... and the status said nothing of it.
TEST(Ancestor, A16_a_delete_that_fails_is_told_until_it_succeeds) {
  const auto said = [](const Scene& scene) {
    const Json status = scene.status_of(kJob);
    for (const Json& condition : status.value("conditions", Json::array()))
      if (condition.at("type") == "ResourcesRejected")
        return condition.at("status").get<std::string>() + " " + condition.value("message", "");
    return std::string();
  };
  const Workload life = {
      "told",
      {make(mpi(2)),
       runs(0, 2, end(1, 137)),
       {"it is told",
        [&](const Scene& scene) {
          return said(scene).starts_with("True delete worker-") &&
                 said(scene).find("500 InternalError") != std::string::npos;
        }},
       {"it is taken back", [&](const Scene& scene) { return said(scene).starts_with("False"); }},
       runs(1, 2, end(0, 0)),
       reached("Succeeded", 0)}};
  const Outcome undisturbed = simulate(workload_named("fails_once"), {});
  const FaultPlan fault{.fault = Fault::kError, .code = 500, .tries = 80};
  const FaultPlan plan = at_every_request(undisturbed, "DELETE", fault).front();
  const Outcome outcome = simulate(life, plan);
  EXPECT_FALSE(outcome.breach) << to_text(plan) << ": " << *outcome.breach;
}

// pytorch-operator#359: the gang hung when one pod was made anew.
TEST(Ancestor, A17_whole_gang_restarts) {
  const Outcome outcome = simulate(workload_named("fails_once"), {});
  EXPECT_EQ(outcome.effects.at("create pods/mnist-worker-0"), 2);
  EXPECT_EQ(outcome.effects.at("create pods/mnist-worker-1"), 2);
}

// mpi-operator#647: cleanPodPolicy was forgotten after an eviction, and seven workers ran on.
TEST(Ancestor, A18_clean_up_after_an_eviction) {
  Json spec = mpi(4);
  spec["failurePolicy"]["rules"] =
      Json::array({{{"action", "Fail"}, {"onReasons", Json::array({"Evicted"})}}});
  const Act evict = [](Scene& scene) { scene.shut_down_node_of(worker(2), "Evicted"); };
  expect_same_end({"evicted", {make(spec), runs(0, 4, evict), reached("Failed", 0)}}, late);
}

// flyte#5417, training-operator#1709: no replicas made a loop, or a pod all the same.
TEST(Ancestor, A19_no_replicas) {
  const Outcome outcome =
      simulate({"none", {make(mpi(0)), {"Invalid", has_condition("Invalid")}}}, {});
  EXPECT_FALSE(outcome.breach) << *outcome.breach;
  EXPECT_FALSE(outcome.effects.contains("create pods/mnist-worker-0"));
}

// jobset#574: a pod that was deleted, or whose node shut down, started nothing.
TEST(Ancestor, A20_deleted_pod_restarts_the_gang) {
  EXPECT_EQ(expect_same_end(workload_named("user_deletes_pod"), crashes).value("attempt", 0), 1);
  EXPECT_EQ(expect_same_end(workload_named("shut_down"), crashes).value("attempt", 0), 1);
}

// jobset#1021: followers were placed by a leader that was terminating. Hostfiles are checked with
// each pod that is made.
TEST(Ancestor, A21_terminating_rank_zero) {
  expect_same_end(workload_named("preempted_all"), late);
}

// jobset#433: a stale index gave followers the attempt before.
TEST(Ancestor, A22_workers_of_another_attempt) {
  expect_same_end(workload_named("fails_once"), [](const Outcome& life) {
    return at_every_request(life, "", {.fault = Fault::kZombie, .seconds = 20, .fenced = false});
  });
}

// jobset#1276: failed and new pods were counted together, and restarts knew no limit.
TEST(Ancestor, A23_restarts_are_bounded) {
  const Workload& life = workload_named("fails_for_good");
  expect_same_end(life, crashes);
  EXPECT_EQ(simulate(life, {}).effects.at("create pods/mnist-worker-0"), 2);
}

// cassandra-operator#402, #404: what was chosen by name was of a job before, when reads were stale.
TEST(Ancestor, A24_reads_that_are_behind) {
  for (const char* name : {"made_again", "fails_once", "name_conflict"})
    expect_same_end(workload_named(name), [](const Outcome& life) {
      return at_every_request(life, "GET", {.fault = Fault::kStaleRead, .seconds = 3});
    });
}

// agent-stack-k8s#965: after a restart the finished jobs in the store left no room for new ones.
TEST(Ancestor, A25_restart_among_finished_jobs) {
  const Act crowd = [](Scene& scene) {
    for (int i = 0; i < 1000; ++i) {
      const std::string name = fmt::format("old-{}", i);
      scene.create_job(name, mpi(1));
      scene.server.edit("trainingjobs", fmt::format("{}/{}", kNamespace, name), [](Json& job) {
        job["status"] = {
            {"phase", "Succeeded"},
            {"observedGeneration", 1},
            {"conditions", Json::array({{{"type", "Succeeded"},
                                         {"status", "True"},
                                         {"reason", "Succeeded"},
                                         {"message", ""},
                                         {"lastTransitionTime", "2023-01-01T00:00:00Z"},
                                         {"observedGeneration", 1}}})}};
      });
    }
  };
  const Workload life = to_success("crowd", mpi(2), {}, 0, 2);
  Workload crowded = life;
  crowded.steps.insert(crowded.steps.begin(), {"there are finished jobs", always(), crowd});
  const Outcome usual = simulate(life, {});
  const Outcome outcome =
      simulate(crowded, {.fault = Fault::kCrash, .at = 8, .point = Point::kApplied});
  EXPECT_FALSE(outcome.breach) << *outcome.breach;
  EXPECT_EQ(outcome.effects.size(), usual.effects.size());
  EXPECT_EQ(outcome.effects.at("create pods/mnist-worker-1"), 1);
}

// etcd#15271, #18089, #17529: a watch went back in time, or swallowed an event.
TEST(Ancestor, A26_watch_goes_back_or_swallows) {
  for (const Fault fault : {Fault::kRepeat, Fault::kLose})
    expect_same_end(workload_named("fails_once"),
                    [fault](const Outcome& life) { return at_every_event(life, fault, 30); });
}

}  // namespace coxswain::test
