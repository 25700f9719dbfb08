#include "tests/simulation/simulated_cluster.h"

#include <fmt/format.h>

#include "operator/job/plan.h"
#include "trainer/contract/error.h"

namespace coxswain::test {

void SimulatedCluster::refresh() {
  job_ = world_.job;
  workers_ = world_.observe().workers;
}

void SimulatedCluster::maybe_hear_news() {
  const int stale = leads ? world_.faults.view_stale : 90;
  const bool hears_of_job = !world_.random.chance(stale) || unsure_;
  // Pods are never seen older than the status is.
  const bool hears_of_pods = !world_.random.chance(stale) || hears_of_job;
  if (hears_of_job) job_ = world_.job;
  unsure_ = false;
  if (hears_of_pods) workers_ = world_.observe().workers;
}

job::Observed SimulatedCluster::observe(const job::TrainingJob&) {
  job::Observed observed = world_.observe();
  observed.workers = workers_;
  planned_from_ = workers_;
  return observed;
}

void SimulatedCluster::trace_record(const job::Status& status) const {
  job::Plan plan;
  plan.status = status;
  plan.decides = true;
  const job::Observed truth = world_.observe();
  fmt::print("{}{:>5} {} {}", job::to_text(truth), world_.seconds(), leads ? "leader" : "zombie",
             job::to_text(plan));
}

SimulatedCluster::Call SimulatedCluster::next_call() {
  if (!world_.random.chance(world_.faults.call_dropped)) return Call::kDone;
  return world_.random.chance(50) ? Call::kLost : Call::kAnswerLost;
}

bool SimulatedCluster::record(const job::TrainingJob& job, const job::Status& status,
                              const std::vector<job::Event>&) {
  unsure_ = true;
  const Call call = next_call();
  if (call == Call::kLost) throw Error(ExitCode::kInternal, "[simulation] the call was lost");
  if (checks_version && job.metadata.resource_version != world_.job.metadata.resource_version)
    return false;
  if (world_.trace) trace_record(status);
  laws_.before_record(status);
  world_.store_status(status, this);
  ++writes;
  if (call == Call::kAnswerLost) throw Error(ExitCode::kInternal, "[simulation] no answer");
  job_ = world_.job;
  unsure_ = false;
  return true;
}

void SimulatedCluster::carry_out(const job::Action& action) {
  ++writes;
  if (world_.trace)
    fmt::print("{:>5} {} {}\n", world_.seconds(), leads ? "leader" : "zombie",
               job::to_text(action));
  if (const auto* create = std::get_if<job::CreateWorker>(&action)) {
    world_.create(create->id, !leads);
  } else if (const auto* remove = std::get_if<job::DeleteWorker>(&action)) {
    laws_.before_delete(*remove);
    world_.remove(*remove);
  } else if (std::holds_alternative<job::DeleteJob>(action)) {
    laws_.demand(job::is_terminal(world_.job.status), "the job was deleted before its end");
    world_.job_deleted = true;
  }
}

void SimulatedCluster::apply(const job::TrainingJob& job, std::span<const job::Action> actions) {
  if (leads && std::holds_alternative<job::CreateWorker>(actions.front())) {
    // What a zombie stored a moment ago the leader can't know yet.
    const bool knows = world_.last_writer == this;
    laws_.before_create(actions, planned_from_, knows ? world_.job.status : job.status);
  }
  bool answered = true;
  for (const job::Action& action : actions) {
    const Call call = next_call();
    if (call != Call::kLost) carry_out(action);
    answered = answered && call == Call::kDone;
  }
  // A reconciler sees what it did itself before it plans again.
  workers_ = world_.observe().workers;
  if (!answered) throw Error(ExitCode::kInternal, "[simulation] a call was lost");
}

}  // namespace coxswain::test
