#include <gtest/gtest.h>

#include "tests/operator/job/plan_text_helper.h"

namespace coxswain::test {

namespace {

using job::FailureAction;
using job::Phase;
using job::Seconds;

std::vector<Situation> starts() {
  return {
      {"starts_a_new_job", make_job(), [](auto&) {}},
      {"makes_keys_before_the_first_gang", make_job(),
       [](auto& seen) { seen.value().keys_secret.clear(); }},
      {"tells_of_a_gang_that_its_keys_are_refused", make_job(),
       [](auto& seen) {
         seen.value().keys_secret.clear();
         seen.value().rejection = job::Rejection{"Forbidden", "exceeded quota: secrets=0"};
       }},
      {"needs_no_keys_for_ranks_that_start_themselves", make_job().env(),
       [](auto& seen) { seen.value().keys_secret.clear(); }},
      {"makes_keys_for_a_gang_that_has_none",
       [] {
         auto job = make_job().queued();
         job.status().keys_secret.clear();
         return job;
       }(),
       [](auto& seen) { seen.value().keys_secret.clear(); }},
      {"stores_the_name_of_its_keys_before_a_pod_tells_it",
       [] {
         auto job = make_job().queued();
         job.status().keys_secret.clear();
         return job;
       }(),
       [](auto&) {}},
      {"creates_objects_then_the_whole_gang", make_job().queued(), [](auto&) {}},
      {"creates_mxnets_scheduler_too", make_job().mxnet(1).queued(), [](auto&) {}},
      {"creates_servers_too", make_job().servers(2).queued(), [](auto&) {}},
      {"makes_a_pod_group_for_a_gang_scheduler",
       [] {
         auto job = make_job().queued();
         job.spec().run_policy.scheduling.gang = job::GangScheduler::kVolcano;
         return job;
       }(),
       [](auto&) {}},
      {"creates_only_what_is_missing", make_job().workers(3).queued(),
       [](auto& seen) { seen.pending(1); }},
      {"says_why_it_is_not_ready", make_job().queued(),
       [](auto& seen) {
         seen.pending(0).reason("Unschedulable", "0/3 nodes are available");
         seen.pending(1).scheduled().reason("ImagePullBackOff", "Back-off pulling image");
       }},
      {"leaves_the_queue_when_all_are_scheduled", make_job().queued(),
       [](auto& seen) { seen.running(0).pending(1).scheduled(); }},
      {"runs_when_all_are_ready", make_job().starting(),
       [](auto& seen) { seen.running(0).running(1); }},
      {"does_nothing_while_it_runs", make_job().running(),
       [](auto& seen) { seen.running(0).running(1); }},
      {"tells_what_the_api_server_refused", make_job().queued(),
       [](auto& seen) {
         seen.value().rejection = job::Rejection{"QuotaExceeded", "exceeded quota: pods=2"};
       }},
      {"waits_for_a_pod_of_an_earlier_job", make_job().queued(),
       [](auto& seen) {
         seen.running(0).value().predecessor =
             job::Predecessor{"Pod", "mnist-worker-1", "node-3", kStart + Seconds(50)};
       }},
      {"says_what_to_do_about_a_stuck_predecessor", make_job().queued(),
       [](auto& seen) {
         seen.after(170).running(0).value().predecessor =
             job::Predecessor{"Pod", "mnist-worker-1", "node-3", kStart + Seconds(50)};
       }},
      {"says_that_an_earlier_service_does_not_go", make_job().queued(),
       [](auto& seen) {
         seen.after(170).value().predecessor =
             job::Predecessor{"Service", "mnist", "", kStart + Seconds(50)};
       }},
      {"leaves_a_deleted_job_alone",
       [] {
         auto job = make_job().running();
         job.metadata().deletion_time = kStart;
         return job;
       }(),
       [](auto& seen) { seen.failed(0, 1); }},
      {"leaves_a_job_of_another_manager_alone",
       [] {
         auto job = make_job();
         job.spec().run_policy.managed_by = "kueue.x-k8s.io/multikueue";
         return job;
       }(),
       [](auto&) {}},
      {"rejects_an_invalid_job",
       [] {
         auto job = make_job();
         job.spec().training = job::Json{{"model", "mlpp"}, {"data", {{"format", "mnist"}}}};
         return job;
       }(),
       [](auto&) {}},
  };
}

std::vector<Situation> failures() {
  return {
      {"restarts_the_gang_when_a_worker_dies", make_job().workers(3).backoff_limit(2).running(),
       [](auto& seen) { seen.running(0).failed(1, 137).running(2); }},
      {"fails_when_the_budget_is_spent", make_job().backoff_limit(0).running(),
       [](auto& seen) { seen.running(0).failed(1, 1); }},
      {"names_the_first_cause_not_the_avalanche", make_job().workers(3).running(),
       [](auto& seen) {
         seen.failed(0, 71).said("PeerLost").finished(40);
         seen.failed(1, 70).said("Internal", "Load", "no memory").finished(45);
         seen.failed(2, 71).said("PeerLost").finished(41);
       }},
      {"holds_a_lost_peer_until_its_cause_is_known", make_job().running(),
       [](auto& seen) { seen.failed(0, 71).said("PeerLost").running(1); }},
      {"tears_down_while_a_peer_is_held", make_job().restarting(1, "Peer"),
       [](auto& seen) {
         seen.failed(0, 71).said("PeerLost").attempt(0);
         seen.running(1).attempt(0).terminating(120);
       }},
      {"takes_the_peers_own_cause", make_job().restarting(1, "Peer"),
       [](auto& seen) {
         seen.failed(0, 71).said("PeerLost").attempt(0);
         seen.failed(1, 137).reason("OOMKilled").attempt(0);
       }},
      // Pods end at 50 s; they were told then, with a grace of 60 s.
      {"takes_the_cause_of_a_peer_that_ended_in_the_second_of_its_deletion",
       make_job().restarting(1, "Peer"),
       [](auto& seen) {
         seen.failed(0, 71).said("PeerLost").attempt(0).terminating(110);
         seen.failed(1, 137).attempt(0).terminating(110);
       }},
      {"takes_no_end_that_was_asked_for_for_a_cause", make_job().restarting(1, "Peer"),
       [](auto& seen) {
         seen.failed(0, 71).said("PeerLost").attempt(0).terminating(110);
         seen.failed(1, 143).attempt(0).terminating(110);
       }},
      {"takes_the_cause_of_a_peer_that_is_gone", make_job().restarting(1, "Peer"),
       [](auto& seen) {
         seen.failed(1, 137).reason("OOMKilled").attempt(0).gone();
         seen.failed(0, 71).said("PeerLost").attempt(0);
       }},
      {"takes_a_stuck_peer_for_a_lost_node", make_job().restarting(1, "Peer"),
       [](auto& seen) { seen.after(300).running(1).attempt(0).terminating(120); }},
      {"counts_an_unexplained_peer_as_failure", make_job().restarting(1, "Peer"), [](auto&) {}},
      {"fails_at_once_on_bad_input", make_job().running(),
       [](auto& seen) {
         seen.failed(0, 65).said("BadInput", "Data", "[data] labels.gz is cut off").running(1);
       }},
      {"takes_a_foreign_65_for_a_failure", make_job().env().running(),
       [](auto& seen) { seen.failed(0, 65).running(1); }},
      {"counts_missing_peers_as_startup", make_job().starting(),
       [](auto& seen) { seen.failed(0, 69).said("PeersMissing", "Start").pending(1).scheduled(); }},
      {"counts_missing_peers_in_a_row_as_failure", make_job().restarting(1, "Startup"),
       [](auto& seen) {
         seen.failed(0, 69).said("PeersMissing", "Start").attempt(1);
         seen.pending(1).scheduled().attempt(1);
       }},
      {"fails_when_no_gang_comes_together", make_job().backoff_limit(0).restarting(1, "Startup"),
       [](auto& seen) {
         seen.failed(0, 69).said("PeersMissing", "Start").attempt(1);
         seen.pending(1).scheduled().attempt(1);
       }},
      {"counts_a_preempted_pod_apart", make_job().running(),
       [](auto& seen) { seen.running(0).running(1).disruption("PreemptionByScheduler"); }},
      {"counts_a_lost_node_apart", make_job().running(),
       [](auto& seen) { seen.running(0).failed(1, {}).disruption("DeletionByTaintManager"); }},
      {"avoids_the_node_of_a_device_at_fault", make_job().backoff_limit(0).running(),
       [](auto& seen) {
         seen.failed(0, 72).said("Device", "AllReduce", "[cuda] an Xid").node("node-3").running(1);
       }},
      {"fails_when_an_avoided_node_got_the_pod",
       [] {
         auto job = make_job().running();
         job.status().avoid_nodes = {"localhost"};
         return job;
       }(),
       [](auto& seen) { seen.failed(0, 72).said("Device").node("localhost").running(1); }},
      {"fails_on_a_ninth_node_whose_device_is_at_fault",
       [] {
         auto job = make_job().running();
         job.status().avoid_nodes = {"a", "b", "c", "d", "e", "f", "g", "h"};
         return job;
       }(),
       [](auto& seen) { seen.failed(0, 72).said("Device").node("i").running(1); }},
      {"says_what_it_avoids_where_no_node_is_left",
       [] {
         auto job = make_job().queued();
         job.status().avoid_nodes = {"node-1", "node-2"};
         return job;
       }(),
       [](auto& seen) {
         seen.pending(0).reason("Unschedulable", "0/2 nodes are available");
         seen.pending(1);
       }},
      {"forgets_what_it_avoids_when_suspended",
       [] {
         auto job = make_job().suspend().running();
         job.status().avoid_nodes = {"node-1"};
         return job;
       }(),
       [](auto& seen) { seen.running(0).running(1); }},
      {"counts_a_vanished_pod_as_preemption", make_job().running(),
       [](auto& seen) { seen.running(0); }},
      {"takes_the_cause_of_a_pod_that_failed_and_vanished", make_job().running(),
       [](auto& seen) { seen.failed(1, 137).reason("OOMKilled").gone().running(0); }},
      {"counts_a_drained_pod_as_preemption", make_job().running(),
       [](auto& seen) {
         seen.failed(0, 75).said("Saved").failed(1, 75).said("Saved").terminating(70);
       }},
      {"takes_a_serving_pod_that_ends_for_a_failure", make_job().running(),
       [](auto& seen) { seen.running(0).succeeded(1); }},
      {"obeys_a_rule_to_fail", make_job().rule({FailureAction::kFail, {42}, {}, {}}).running(),
       [](auto& seen) { seen.failed(0, 42).running(1); }},
      {"obeys_a_rule_that_spends_nothing",
       make_job()
           .backoff_limit(0)
           .rule({FailureAction::kRestartIgnoringBackoffLimit, {}, {"OOMKilled"}, {}})
           .running(),
       [](auto& seen) { seen.failed(0, 137).reason("OOMKilled").running(1); }},
      {"heals_a_lost_status", make_job().running(),
       [](auto& seen) { seen.running(0).attempt(4).running(1).attempt(4); }},
      {"takes_no_number_from_a_label_that_nobody_counted_to", make_job().running(),
       [](auto& seen) { seen.running(0).attempt(2147483647).running(1); }},
      {"deletes_what_an_absurd_label_stands_on", make_job().queued(),
       [](auto& seen) { seen.running(0).attempt(2147483647).pending(1); }},
  };
}

std::vector<Situation> restarts() {
  return {
      {"deletes_the_old_gang_with_grace", make_job().restarting(1, "Failure"),
       [](auto& seen) { seen.running(0).attempt(0).failed(1, 1).attempt(0); }},
      {"waits_for_the_old_gang", make_job().restarting(1, "Failure"),
       [](auto& seen) { seen.running(0).attempt(0).terminating(120); }},
      {"forces_a_stuck_pod", make_job().restarting(1, "Node"),
       [](auto& seen) { seen.after(180).running(0).attempt(0).terminating(120); }},
      {"makes_the_new_gang_when_none_is_left", make_job().restarting(1, "Failure"), [](auto&) {}},
      {"waits_for_its_back_off",
       [] {
         auto job = make_job().restarting(2, "Failure");
         job.status().next_retry_time = kStart + Seconds(70);
         return job;
       }(),
       [](auto&) {}},
      {"backs_off_from_the_second_restart",
       [] {
         auto job = make_job().running(1);
         job.status().backoff_step = 1;
         return job;
       }(),
       [](auto& seen) { seen.failed(0, 1).running(1); }},
      {"forgets_its_back_off_after_ten_calm_minutes",
       [] {
         auto job = make_job().running(3);
         job.status().backoff_step = 3;
         return job;
       }(),
       [](auto& seen) { seen.after(600).failed(0, 1).running(1); }},
      {"backs_off_six_minutes_at_most",
       [] {
         auto job = make_job().backoff_limit(100).running(20);
         job.status().backoff_step = 20;
         return job;
       }(),
       [](auto& seen) { seen.failed(0, 1).running(1); }},
      {"resizes_by_a_new_gang",
       [] {
         auto job = make_job().elastic(1, 8).running();
         job.spec().worker.replicas = 4;
         return job;
       }(),
       [](auto& seen) { seen.running(0).running(1); }},
      {"starts_degraded_when_it_waited_long_enough",
       [] {
         auto job = make_job().workers(4).elastic(2, 4).queued();
         job.spec().elastic->degraded_start_after = Seconds(30);
         return job;
       }(),
       [](auto& seen) {
         seen.pending(0).scheduled().pending(1).scheduled().pending(2).scheduled().pending(3);
       }},
  };
}

std::vector<Situation> ends() {
  return {
      {"succeeds_with_rank_zero", make_job().running(),
       [](auto& seen) { seen.succeeded(0).running(1); }},
      {"tells_of_its_model_at_the_end", make_job().running(),
       [](auto& seen) {
         seen.succeeded(0).running(1);
         seen.value().progress.emplace();
         seen.value().progress->epoch = 10;
         seen.value().progress->accuracy = 0.99512;
         seen.value().checkpoint.emplace();
         seen.value().checkpoint->path = "step-00004690.g1";
       }},
      {"waits_for_all_workers_of_env", make_job().env().running(),
       [](auto& seen) { seen.succeeded(0).running(1); }},
      {"remembers_succeeded_ranks",
       [] {
         auto job = make_job().env().running();
         job.status().succeeded_ranks = "0";
         return job;
       }(),
       [](auto& seen) { seen.succeeded(1); }},
      {"ends_serving_pods_after_success", make_job().ended(Phase::kSucceeded),
       [](auto& seen) { seen.succeeded(0).running(1); }},
      {"keeps_pods_under_clean_pod_policy_none",
       [] {
         auto job = make_job().env().ended(Phase::kFailed);
         job.spec().run_policy.clean_pods = job::CleanPodPolicy::kNone;
         return job;
       }(),
       [](auto& seen) { seen.failed(0, 1).running(1); }},
      {"deletes_all_pods_under_clean_pod_policy_all",
       [] {
         auto job = make_job().ended(Phase::kSucceeded);
         job.spec().run_policy.clean_pods = job::CleanPodPolicy::kAll;
         return job;
       }(),
       [](auto& seen) { seen.succeeded(0).running(1); }},
      {"gives_sidecars_their_grace_to_end", make_job().env().ended(Phase::kSucceeded),
       [](auto& seen) { seen.after(59).succeeded(0).lingering().succeeded(1); }},
      {"deletes_pods_whose_sidecars_run_on", make_job().env().ended(Phase::kSucceeded),
       [](auto& seen) { seen.after(60).succeeded(0).lingering().succeeded(1); }},
      {"creates_nothing_for_a_finished_job", make_job().ended(Phase::kFailed), [](auto&) {}},
      {"deletes_the_job_after_its_ttl",
       [] {
         auto job = make_job().ended(Phase::kSucceeded);
         job.spec().run_policy.ttl_after_finished = Seconds(60);
         return job;
       }(),
       [](auto&) {}},
      {"waits_for_the_ttl",
       [] {
         auto job = make_job().ended(Phase::kSucceeded);
         job.spec().run_policy.ttl_after_finished = Seconds(100);
         return job;
       }(),
       [](auto&) {}},
      {"fails_at_the_active_deadline",
       [] {
         auto job = make_job().running();
         job.spec().run_policy.active_deadline = Seconds(60);
         return job;
       }(),
       [](auto& seen) { seen.running(0).running(1); }},
      {"fails_at_the_startup_deadline", make_job().workers(3).starting(),
       [](auto& seen) {
         seen.after(600).running(0).pending(1).scheduled().reason("ImagePullBackOff",
                                                                  "no such tag");
         seen.pending(2).scheduled();
       }},
      {"never_counts_queueing_as_startup", make_job().queued(),
       [](auto& seen) { seen.after(100000).running(0).pending(1).reason("Unschedulable"); }},
      {"suspends", make_job().suspend().running(), [](auto& seen) { seen.running(0).running(1); }},
      {"deletes_the_gang_of_a_suspended_job", make_job().suspended(),
       [](auto& seen) { seen.running(0).running(1).terminating(110); }},
      {"rests_while_suspended", make_job().suspended(), [](auto&) {}},
      {"keeps_its_pod_group_while_pods_leave",
       [] {
         auto job = make_job().suspended();
         job.status().pod_group = job::GangScheduler::kVolcano;
         return job;
       }(),
       [](auto& seen) { seen.running(0).terminating(110); }},
      {"deletes_its_pod_group_after_the_last_pod",
       [] {
         auto job = make_job().suspended();
         job.status().pod_group = job::GangScheduler::kVolcano;
         return job;
       }(),
       [](auto&) {}},
      {"deletes_the_group_of_the_scheduler_before",
       [] {
         auto job = make_job().suspended().suspend(false);
         job.spec().run_policy.scheduling.gang = job::GangScheduler::kCoscheduling;
         job.status().pod_group = job::GangScheduler::kVolcano;
         return job;
       }(),
       [](auto&) {}},
      {"deletes_the_pod_group_of_an_ended_job",
       [] {
         auto job = make_job().ended(Phase::kSucceeded);
         job.status().pod_group = job::GangScheduler::kCoscheduling;
         return job;
       }(),
       [](auto& seen) { seen.succeeded(0); }},
      {"suspends_a_new_job", make_job().suspend(), [](auto&) {}},
      {"resumes_with_the_next_attempt", make_job().suspended(1).suspend(false), [](auto&) {}},
  };
}

}  // namespace

TEST(GoldenPlans, starting) { expect_golden_plans(starts()); }
TEST(GoldenPlans, failing) { expect_golden_plans(failures()); }
TEST(GoldenPlans, restarting) { expect_golden_plans(restarts()); }
TEST(GoldenPlans, ending) { expect_golden_plans(ends()); }

}  // namespace coxswain::test
