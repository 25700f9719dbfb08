#include "tests/simulation/simulation.h"

#include <fmt/format.h>

#include "operator/job/observation.h"
#include "operator/job/roles.h"
#include "tests/simulation/laws.h"
#include "tests/simulation/simulated_cluster.h"
#include "tests/simulation/world.h"
#include "trainer/contract/error.h"

namespace coxswain::test {

namespace {

constexpr int kWildSteps = 60;
constexpr int kCalmSteps = 120;  // long enough for grace, stuckTermination and back-off in turn
constexpr int kQuietSteps = 5;

job::TrainingJob draw_job(Random& random) {
  job::TrainingJob job;
  job.metadata.name = "sim";
  job.metadata.uid = "1";
  job.metadata.resource_version = "1";
  job.metadata.generation = 1;
  job.spec.training = job::Json{{"model", "mlp"}, {"data", {{"format", "mnist"}}}};
  job.spec.worker.replicas = random.between(1, 4);
  const bool own_program = random.chance(40);
  if (random.chance(25)) {
    job.spec.strategy = job::Strategy::kParameterServer;
    job.spec.server = job::ReplicaSpec{random.between(1, 2), {}};
  }
  if (own_program) {
    job.spec.training.reset();
    job.spec.worker.pod_template =
        job::Json::parse(R"({"spec":{"containers":[{"name":"trainer","image":"own:1"}]}})");
    if (job.spec.server) job.spec.server->pod_template = job.spec.worker.pod_template;
  }
  auto& policy = job.spec.run_policy;
  policy.backoff_limit = random.between(0, 3);
  policy.suspend = random.chance(10);
  policy.termination_grace = job::Seconds(random.between(5, 40));
  policy.stuck_termination = job::Seconds(random.between(5, 40));
  policy.clean_pods = static_cast<job::CleanPodPolicy>(random.below(3));
  if (random.chance(10)) policy.active_deadline = job::Seconds(random.between(50, 600));
  if (random.chance(20)) policy.startup_deadline = job::Seconds(random.between(20, 200));
  if (random.chance(10)) policy.ttl_after_finished = job::Seconds(random.between(1, 300));
  if (random.chance(30)) {
    job.spec.elastic.emplace();
    job.spec.elastic->min_replicas = 1;
    job.spec.elastic->max_replicas = 4;
    if (random.chance(50)) job.spec.elastic->degraded_start_after = job::Seconds(30);
  }
  return job;
}

Faults draw_faults(Random& random) {
  const auto rate = [&](int most) { return random.chance(50) ? random.between(0, most) : 0; };
  Faults faults;
  faults.worker_fails = rate(8);
  faults.pod_vanishes = rate(4);
  faults.pod_disrupted = rate(4);
  faults.node_lost = rate(5);
  faults.user_deletes = rate(4);
  faults.suspend_toggled = rate(8);
  faults.resized = rate(8);
  faults.call_dropped = rate(30);
  faults.view_stale = rate(60);
  faults.zombie_wakes = rate(20);
  faults.leader_changes = rate(5);
  return faults;
}

// Two operators, one of which leads.
class Life {
 public:
  Life(std::uint64_t seed, const Reconciler::Planner& planner, Variant variant)
      : random_(seed),
        world_(draw_job(random_), random_.next()),
        laws_(world_),
        clusters_{SimulatedCluster(world_, laws_), SimulatedCluster(world_, laws_)},
        reconcilers_{Reconciler(clusters_[0], job::patience, planner),
                     Reconciler(clusters_[1], job::patience, planner)} {
    clusters_[1].leads = false;
    world_.trace = variant.trace;
    for (auto& cluster : clusters_) cluster.checks_version = variant.client_checks_version;
    world_.faults = draw_faults(random_);
    world_.rank_zero_may_finish = random_.chance(50);
  }

  void run() {
    for (int i = 0; i < kWildSteps && goes_on(); ++i) wild_step();
    calm_down();
  }

  const Laws& laws() const { return laws_; }
  void add_to(Coverage& coverage) const;

 private:
  bool goes_on() const { return !laws_.breach() && !world_.job_deleted; }
  int writes() const { return clusters_[0].writes + clusters_[1].writes; }

  void pass(int which) {
    clusters_[which].maybe_hear_news();
    try {
      reconcilers_[which].reconcile(job::TrainingJob(clusters_[which].cached_job()));
    } catch (const Error&) {
      // The controller comes back.
    }
  }

  void wild_step() {
    world_.step();
    if (world_.random.chance(world_.faults.leader_changes)) {
      clusters_[leader_].leads = false;
      leader_ = 1 - leader_;
      clusters_[leader_].leads = true;
      clusters_[leader_].refresh();
    }
    for (int i = world_.random.below(3); i > 0; --i) pass(leader_);
    if (world_.random.chance(world_.faults.zombie_wakes)) pass(1 - leader_);
  }

  // No more faults: the job ends, rests, or runs; then nobody writes any more.
  void calm_down() {
    const bool finishes = world_.rank_zero_may_finish;
    world_.faults = Faults{};
    int quiet = 0;
    for (int i = 0; i < kCalmSteps && goes_on() && quiet < kQuietSteps; ++i) {
      world_.step();
      const int before = writes();
      pass(leader_);
      pass(leader_);
      quiet = writes() == before && settled() ? quiet + 1 : 0;
    }
    if (goes_on())
      laws_.demand(quiet >= kQuietSteps,
                   fmt::format("never came to rest: {} {}", job::to_text(world_.job.status.phase),
                               finishes ? "(may finish)" : "(keeps running)"));
  }

  bool settled() const {
    const job::Status& status = world_.job.status;
    int alive = 0;
    int stray = 0;
    for (const auto& [name, pod] : world_.pods) {
      if (is_alive(pod)) ++alive;
      if (is_alive(pod) && !job::is_current(status, pod.seen.id)) ++stray;
    }
    if (stray > 0) return false;
    if (job::is_terminal(status)) return true;
    if (world_.job.spec.run_policy.suspend)
      return status.phase == job::Phase::kSuspended && world_.pods.empty();
    return !world_.rank_zero_may_finish && status.phase == job::Phase::kRunning && alive > 0;
  }

  Random random_;
  World world_;
  Laws laws_;
  SimulatedCluster clusters_[2];
  Reconciler reconcilers_[2];
  int leader_ = 0;
};

void Life::add_to(Coverage& coverage) const {
  const job::Status& status = world_.job.status;
  ++coverage.lives;
  coverage.succeeded += status.phase == job::Phase::kSucceeded;
  coverage.failed += status.phase == job::Phase::kFailed;
  coverage.suspended += status.phase == job::Phase::kSuspended;
  coverage.running += status.phase == job::Phase::kRunning;
  coverage.failures += status.restarts.failure;
  coverage.preemptions += status.restarts.preemption;
  coverage.nodes += status.restarts.node;
  coverage.startups += status.restarts.startup;
  coverage.resizes += status.restarts.resize;
  coverage.writes += writes();
}

}  // namespace

std::optional<std::string> simulate(std::uint64_t seed, const Reconciler::Planner& planner,
                                    Coverage& coverage, Variant variant) {
  Life life(seed, planner, variant);
  life.run();
  life.add_to(coverage);
  return life.laws().breach();
}

}  // namespace coxswain::test
