#include <gtest/gtest.h>

#include "tests/operator/job/plan_text_helper.h"

namespace coxswain::test {

namespace {

using job::Phase;
using job::Seconds;

// Of 2 workers and 2 servers of the user's own program: a pod that its peers train on without.
std::vector<Situation> replacements() {
  const auto make = [] { return make_job().env().servers(2).backoff_limit(2); };
  const auto see_workers = [](auto& seen) { seen.running(0).running(1); };
  return {
      {"replaces_a_server_that_is_lost", make().running(),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server().failed(1, 137).server();
       }},
      {"replaces_a_worker_of_servers", make().running(),
       [](auto& seen) { seen.running(0).failed(1, 1).running(0).server().running(1).server(); }},
      {"replaces_a_server_that_was_preempted_without_spending", make().backoff_limit(0).running(),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server().disruption("PreemptionByScheduler").terminating(90);
         seen.running(1).server();
       }},
      {"fails_when_the_budget_is_spent_on_a_server", make().backoff_limit(0).running(),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server().failed(1, 137).server();
       }},
      {"makes_a_new_gang_when_a_worker_misses_its_servers", make().running(),
       [](auto& seen) {
         seen.failed(0, 71).said("PeerLost").running(1).running(0).server().running(1).server();
       }},
      {"makes_a_new_gang_of_servers_that_never_came_together", make().queued(),
       [](auto& seen) { seen.running(0).running(1).failed(0, 1).server(); }},
      {"replaces_a_server_that_leaves_before_it_is_recorded_that_all_are_there", make().queued(),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server().running(1).server().terminating(90);
       }},
      {"deletes_the_old_pod_of_a_replaced_server", make().replacing(job::Role::kServer, 1),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server().failed(1, 137).server();
       }},
      {"makes_the_new_pod_of_a_replaced_server", make().replacing(job::Role::kServer, 1),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server();
       }},
      {"waits_before_it_replaces_a_server_again",
       [&] {
         auto job = make().replacing(job::Role::kServer, 1, 2);
         job.status().next_retry_time = kStart + Seconds(70);
         return job;
       }(),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server();
       }},
      {"goes_on_with_a_replaced_server", make().replacing(job::Role::kServer, 1),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server().running(1).server().incarnation(1);
       }},
      {"replaces_a_server_that_vanished_while_another_is_replaced",
       make().replacing(job::Role::kServer, 1),
       [=](auto& seen) {
         see_workers(seen);
         seen.pending(1).server().incarnation(1);
       }},
      {"heals_a_status_that_lost_a_replacement", make().running(),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server().running(1).server().incarnation(1);
       }},
      {"fails_when_a_replaced_server_never_starts",
       [&] {
         auto job = make().replacing(job::Role::kServer, 1);
         job.set("Queued", false, "Scheduled").set("Ready", false, "NotReady");
         return job;
       }(),
       [=](auto& seen) {
         see_workers(seen);
         seen.after(700).running(0).server().pending(1).scheduled().server().incarnation(1);
       }},
      {"keeps_the_servers_of_a_suspended_job_while_its_workers_leave",
       [&] {
         auto job = make().suspended();
         job.status().replacements.push_back({job::Role::kServer, 1, 1, false});
         return job;
       }(),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server().running(1).server().incarnation(1);
       }},
      {"ends_the_servers_of_a_suspended_job_after_its_workers",
       [&] {
         auto job = make().suspended();
         job.status().replacements.push_back({job::Role::kServer, 1, 1, false});
         return job;
       }(),
       [](auto& seen) {
         seen.failed(0, 75).failed(1, 75).running(0).server().running(1).server().incarnation(1);
       }},
      {"ends_servers_after_success", make().ended(Phase::kSucceeded),
       [](auto& seen) { seen.succeeded(0).succeeded(1).running(0).server().running(1).server(); }},
  };
}

// Of programs that are not ours.
std::vector<Situation> other_servers() {
  const auto make = [] { return make_job().own_servers(2).running(); };
  const auto see_workers = [](auto& seen) { seen.running(0).running(1); };
  const auto see_served = [=](auto& seen) {
    see_workers(seen);
    seen.succeeded(0).server().finished(55).succeeded(1).server();  // at 50 s
  };
  return {
      {"lets_other_servers_end_before_their_workers", make(),
       [=](auto& seen) { see_served(seen.after(109)); }},
      {"fails_when_workers_outlive_other_servers", make(),
       [=](auto& seen) { see_served(seen.after(110)); }},
      {"succeeds_though_other_servers_ended_long_ago", make(),
       [](auto& seen) {
         seen.after(200).succeeded(0).succeeded(1);
         seen.succeeded(0).server().succeeded(1).server();
       }},
      {"replaces_another_server_that_fails", make(),
       [=](auto& seen) {
         see_workers(seen);
         seen.failed(0, 1).server().succeeded(1).server();
       }},
      {"replaces_another_server_that_was_told_to_leave", make(),
       [=](auto& seen) {
         see_workers(seen);
         seen.succeeded(0).server().terminating(90).running(1).server();
       }},
      {"makes_a_new_gang_when_mxnets_server_fails", make_job().mxnet(1).running(),
       [=](auto& seen) {
         see_workers(seen);
         seen.failed(0, 1).server().running(0).scheduler();
       }},
      {"makes_a_new_gang_when_mxnets_scheduler_fails", make_job().mxnet(1).running(),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server().failed(0, 1).scheduler();
       }},
      {"lets_mxnets_scheduler_end_before_its_workers", make_job().mxnet(1).running(),
       [=](auto& seen) {
         see_workers(seen);
         seen.succeeded(0).server().succeeded(0).scheduler();
       }},
  };
}

// Of 2 workers and 2 servers of our trainer: a server's copy is with the next one, and no step of
// synchronous training may miss a worker.
std::vector<Situation> servers_of_ours() {
  const auto make = [] { return make_job().servers(2).backoff_limit(2); };
  const auto asynchronous = [&] {
    auto job = make();
    (*job.spec().training)["parameterServer"] = {{"mode", "async"}};
    return job.running();
  };
  const auto see_workers = [](auto& seen) { seen.running(0).running(1); };
  return {
      {"replaces_one_of_several_servers_of_ours", make().running(),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server().failed(1, 137).server();
       }},
      {"makes_a_new_gang_when_the_only_server_is_lost", make().servers(1).running(),
       [=](auto& seen) {
         see_workers(seen);
         seen.failed(0, 137).server();
       }},
      {"makes_a_new_gang_when_a_worker_of_synchronous_training_is_lost", make().running(),
       [](auto& seen) { seen.running(0).failed(1, 137).running(0).server().running(1).server(); }},
      {"replaces_a_worker_of_asynchronous_training", asynchronous(),
       [](auto& seen) { seen.running(0).failed(1, 137).running(0).server().running(1).server(); }},
      {"replaces_one_of_several_servers_of_asynchronous_training", asynchronous(),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server().failed(1, 137).server();
       }},
      {"makes_a_new_gang_when_the_only_server_of_asynchronous_training_is_lost",
       asynchronous().servers(1),
       [=](auto& seen) {
         see_workers(seen);
         seen.failed(0, 137).server();
       }},
      {"makes_a_new_gang_when_a_server_and_its_workers_are_lost", make().running(),
       [](auto& seen) {
         seen.failed(0, 71).said("PeerLost").failed(1, 71).said("PeerLost");
         seen.running(0).server().failed(1, 137).server();
       }},
      {"replaces_a_server_of_ours_that_ends_before_the_workers", make().running(),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server().succeeded(1).server();
       }},
      {"replaces_a_server_of_ours_that_somebody_deletes", make().backoff_limit(0).running(),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server().succeeded(1).server().terminating(90);
       }},
      {"keeps_the_number_of_servers_of_its_attempt",
       [&] {
         auto job = make().elastic(1, 4).running();
         job.spec().worker.replicas = job.spec().server->replicas = 3;
         return job;
       }(),
       [=](auto& seen) {
         see_workers(seen);
         seen.running(0).server().running(1).server();
       }},
  };
}

}  // namespace

TEST(GoldenPlans, servers_of_ours) { expect_golden_plans(servers_of_ours()); }

TEST(GoldenPlans, replacing) { expect_golden_plans(replacements()); }
TEST(GoldenPlans, other_servers) { expect_golden_plans(other_servers()); }

}  // namespace coxswain::test
