#pragma once

#include <optional>
#include <string>
#include <utility>

#include "operator/job/observed.h"
#include "operator/job/status.h"
#include "operator/job/training_job.h"

namespace coxswain::test {

// The moment at which builders' gangs were recorded, scheduled and Running.
inline constexpr job::Time kStart{std::chrono::sys_days(std::chrono::year(2026) / 1 / 1)};

// Arranges a TrainingJob: make_job().workers(3).backoff_limit(2).running().
class JobBuilder {
 public:
  JobBuilder() {
    job_.metadata.name = "mnist";
    job_.metadata.uid = "11111111-2222";
    job_.metadata.generation = 1;
    job_.spec.training = job::Json{{"model", "mlp"}, {"data", {{"format", "mnist"}}}};
    job_.spec.worker.replicas = 2;
  }

  operator const job::TrainingJob&() const { return job_; }
  job::Spec& spec() { return job_.spec; }
  job::Status& status() { return job_.status; }
  job::Metadata& metadata() { return job_.metadata; }

  JobBuilder& workers(int count) {
    job_.spec.worker.replicas = count;
    return *this;
  }
  JobBuilder& env() {  // a program of the user's own, on each worker; all must succeed
    job_.spec.launcher = job::Launcher::kEnv;
    job_.spec.training.reset();
    job_.spec.worker.pod_template = job::Json::parse(
        R"({"spec":{"containers":[{"name":"trainer","command":["python"],"args":["train.py"]}]}})");
    return *this;
  }
  JobBuilder& servers(int count) {
    job_.spec.strategy = job::Strategy::kParameterServer;
    job_.spec.server = job::ReplicaSpec{count, {}};
    return *this;
  }
  JobBuilder& own_servers(int count) {  // of the user's own program
    servers(count).env();
    job_.spec.server->pod_template = job_.spec.worker.pod_template;
    return *this;
  }
  JobBuilder& mxnet(int count) {  // with its scheduler
    job_.spec.rendezvous = {job::Framework::kMxnet};
    return own_servers(count);
  }
  JobBuilder& backoff_limit(int limit) {
    job_.spec.run_policy.backoff_limit = limit;
    return *this;
  }
  JobBuilder& suspend(bool value = true) {
    job_.spec.run_policy.suspend = value;
    return *this;
  }
  JobBuilder& elastic(int min, int max) {
    job_.spec.elastic.emplace();
    job_.spec.elastic->min_replicas = min;
    job_.spec.elastic->max_replicas = max;
    return *this;
  }
  JobBuilder& rule(job::FailureRule rule) {
    job_.spec.failure_rules.push_back(std::move(rule));
    return *this;
  }

  // The gang is recorded; its pods are being made.
  JobBuilder& queued(int attempt = 0) {
    job::Status& status = job_.status;
    status.attempt = attempt;
    status.workers = job_.spec.worker.replicas;
    status.image = "trainer:1";
    status.keys_secret = "mnist-keys-1";
    status.attempt_start_time = kStart;
    status.replicas[job::Role::kWorker].desired = status.workers;
    if (job_.spec.server) status.replicas[job::Role::kServer].desired = job_.spec.server->replicas;
    status.phase = job::Phase::kQueued;
    set("Queued", true, "Starting");
    set("Ready", false, "Starting");
    set("Running", false, "Starting");
    return *this;
  }
  // All pods are scheduled; not all have been Ready.
  JobBuilder& starting(int attempt = 0) {
    queued(attempt);
    set("Queued", false, "Scheduled");
    job_.status.phase = job::Phase::kStarting;
    return *this;
  }
  JobBuilder& running(int attempt = 0) {
    starting(attempt);
    set("Ready", true, "AllReady");
    set("Running", true, "AllReady");
    job_.status.phase = job::Phase::kRunning;
    job_.status.start_time = kStart;
    return *this;
  }
  // Attempt `attempt` is recorded because of `cause`; the gang before may still be there.
  JobBuilder& restarting(int attempt, const std::string& cause) {
    queued(attempt);
    set("Restarting", true, cause);
    job_.status.phase = job::Phase::kRestarting;
    job_.status.backoff_step = attempt;
    return *this;
  }
  // A pod of the running gang is to be made anew.
  JobBuilder& replacing(job::Role role, int index, int incarnation = 1) {
    running();
    job_.status.replacements.push_back({role, index, incarnation, true});
    job_.status.backoff_step = incarnation;
    return set("Queued", true, "Replacing");
  }
  JobBuilder& suspended(int last_attempt = 0) {
    job_.spec.run_policy.suspend = true;
    job_.status.attempt = last_attempt;
    job_.status.attempt_start_time = kStart;
    job_.status.phase = job::Phase::kSuspended;
    set("Suspended", true, "Suspended");
    return *this;
  }
  JobBuilder& ended(job::Phase phase) {
    running();
    job_.status.phase = phase;
    job_.status.completion_time = kStart;
    set(job::to_text(phase), true, "Ended");
    return *this;
  }
  JobBuilder& set(const std::string& type, bool value, const std::string& reason) {
    job::set_condition(job_.status, type, {value, reason, ""}, {kStart, 1});
    return *this;
  }

 private:
  job::TrainingJob job_;
};

inline JobBuilder make_job() { return {}; }

// Arranges what is seen: observed(job).running(0).failed(1, 137).running(2). What follows a worker
// (said, reason, ...) is about that worker.
class ObservedBuilder {
 public:
  explicit ObservedBuilder(const job::TrainingJob& job) : job_(job) {
    observed_.now = kStart + job::Seconds(60);
    observed_.installation.trainer_image = "trainer:1";
    observed_.keys_secret = "mnist-keys-1";
  }

  operator const job::Observed&() const { return observed_; }
  job::Observed& value() { return observed_; }

  ObservedBuilder& after(int seconds) {
    observed_.now = kStart + job::Seconds(seconds);
    return *this;
  }
  ObservedBuilder& pending(int index) { return add(index, job::WorkerPhase::kPending); }
  ObservedBuilder& running(int index) {
    add(index, job::WorkerPhase::kRunning);
    last().scheduled = last().ready = true;
    return node("node-" + std::to_string(index));
  }
  ObservedBuilder& succeeded(int index) {
    add(index, job::WorkerPhase::kSucceeded);
    last().scheduled = true;
    last().exit_code = 0;
    return finished(50);
  }
  ObservedBuilder& failed(int index, std::optional<int> exit_code) {
    add(index, job::WorkerPhase::kFailed);
    last().scheduled = true;
    last().exit_code = exit_code;
    if (exit_code) last().reason = "Error";
    return finished(50);
  }
  ObservedBuilder& server() {
    last().id.role = job::Role::kServer;
    return *this;
  }
  ObservedBuilder& scheduler() {
    last().id.role = job::Role::kScheduler;
    return *this;
  }
  // The last one is there no more.
  ObservedBuilder& gone() {
    observed_.gone.push_back(last());
    observed_.workers.pop_back();
    return *this;
  }
  ObservedBuilder& attempt(int value) {
    last().id.attempt = value;
    return *this;
  }
  ObservedBuilder& incarnation(int value) {
    last().id.incarnation = value;
    return *this;
  }
  ObservedBuilder& lingering() {
    last().lingers = true;
    return *this;
  }
  ObservedBuilder& scheduled() {
    last().scheduled = true;
    return *this;
  }
  ObservedBuilder& reason(const std::string& value, const std::string& message = "") {
    last().reason = value;
    last().message = message;
    return *this;
  }
  ObservedBuilder& disruption(const std::string& value) {
    last().disruption = value;
    return *this;
  }
  ObservedBuilder& node(const std::string& value) {
    last().node = value;
    return *this;
  }
  ObservedBuilder& finished(int seconds) {
    last().finished_time = kStart + job::Seconds(seconds);
    return *this;
  }
  // A termination message of ours, with the worker's exit code.
  ObservedBuilder& said(const std::string& reason, const std::string& phase = "AllReduce",
                        const std::string& message = "") {
    contract::TerminationMessage termination;
    termination.exit_code = last().exit_code.value_or(0);
    termination.rank = last().id.index;
    termination.reason = reason;
    termination.phase = phase;
    termination.message = message;
    last().termination_message = termination;
    return *this;
  }
  // deletionTimestamp, which lies in the future while the grace period runs.
  ObservedBuilder& terminating(int seconds) {
    last().deletion_time = kStart + job::Seconds(seconds);
    return *this;
  }

 private:
  job::Worker& last() { return observed_.workers.back(); }
  ObservedBuilder& add(int index, job::WorkerPhase phase) {
    job::Worker worker;
    worker.id = {job::Role::kWorker, index, job_.status.attempt};
    worker.uid = "uid-" + std::to_string(observed_.workers.size());
    worker.phase = phase;
    observed_.workers.push_back(std::move(worker));
    return *this;
  }

  const job::TrainingJob& job_;
  job::Observed observed_;
};

inline ObservedBuilder observed(const job::TrainingJob& job) { return ObservedBuilder(job); }

}  // namespace coxswain::test
