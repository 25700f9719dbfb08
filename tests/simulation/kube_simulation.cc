#include "tests/simulation/kube_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "tests/simulation/life_steps.h"
#include "tests/simulation/operator_instance.h"

namespace coxswain::test {

namespace {

constexpr int kMostSeconds = 500;  // less than until a list heals what a watch lost
constexpr int kCalmSeconds = 34;  // longer than the operator keeps observations to itself
constexpr int kRests = 20;        // of half a minute, in which nobody writes any more
constexpr int kHold = 2;
constexpr int kTriesOfACall = 4;    // after which the client gives up
constexpr int kZombieSeconds = 40;  // that it goes on after waking

bool is_late(const FaultPlan& plan) {
  return plan.fault == Fault::kHang && plan.point == Point::kReplied;
}

class Simulation {
 public:
  Simulation(const Workload& workload, const FaultPlan& plan, Mutation mutation, bool trace)
      : workload_(workload),
        wire_{.scene = scene_,
              .troubles = {},
              .mutation = mutation,
              .trace = trace,
              .skew = workload.skew,
              .most_skew = workload.skew} {
    for (const FaultPlan& one : all_of(plan)) wire_.troubles.push_back({.plan = one});
    scene_.server.on_change = [this](const std::string& resource, const Object& before,
                                     const Object& after) {
      scene_.laws.before_change(resource, before, after);
    };
    wire_.wait = [this](int seconds) { pass(seconds); };
    wire_.take_over = [this, seconds = zombie_sleep(plan)] {
      zombie_ = std::move(leader_);
      asleep_ = true;
      pass(seconds);
      asleep_ = false;
    };
  }

  Outcome run() {
    pass(kMostSeconds);
    const std::vector<std::string> requests = wire_.log;
    if (is_over())
      rest();
    else
      scene_.laws.demand(false, next_step_ < workload_.steps.size()
                                    ? "never came to: " + workload_.steps[next_step_].text
                                    : "never came to rest");
    Outcome outcome;
    outcome.breach = scene_.laws.breach();
    outcome.end = scene_.end_state();
    outcome.effects = scene_.laws.effects();
    outcome.requests = requests;
    for (const Revision& revision : scene_.server.history()) ++outcome.revisions[revision.resource];
    outcome.happened = std::ranges::all_of(wire_.troubles, [](const Wire::Trouble& trouble) {
      return trouble.happened || trouble.silent_until;
    });
    return outcome;
  }

 private:
  bool is_over() const { return next_step_ == workload_.steps.size() && calm_ >= kCalmSeconds; }

  static int zombie_sleep(const FaultPlan& plan) {
    for (const FaultPlan& one : all_of(plan))
      if (one.fault == Fault::kZombie) return one.seconds;
    return 0;
  }

  void pass(int seconds) {
    for (int i = 0; i < seconds && !scene_.laws.breach() && !is_over(); ++i) second();
  }

  // While an operator waits, this is called from within its turn in an earlier one.
  void second() {
    const std::uint64_t version = scene_.server.version();
    const int requests = wire_.requests;
    wire_.elapsed = {};
    scene_.step();
    deliver_late();
    play();
    drive();
    const bool moved = scene_.server.version() != version || wire_.requests != requests;
    const bool silent = std::ranges::any_of(wire_.troubles, [&](const Wire::Trouble& trouble) {
      return trouble.silent_until && scene_.server.now < *trouble.silent_until;
    });
    calm_ = moved || silent || zombie_ || !wire_.late.empty() ? 0 : calm_ + 1;
  }

  void deliver_late() {
    const std::vector<Wire::Late> all = std::exchange(wire_.late, {});
    for (const Wire::Late& late : all) {
      if (late.when > scene_.server.now) {
        wire_.late.push_back(late);
        continue;
      }
      scene_.laws.caller = {.late = true, .jobs = nullptr, .skew = wire_.most_skew};
      (void)scene_.server.answer(late.request);
    }
  }

  void play() {
    if (next_step_ == workload_.steps.size()) return;
    const Step& next = workload_.steps[next_step_];
    held_ = next.when(scene_) ? held_ + 1 : 0;
    if (held_ < kHold) return;
    if (wire_.trace) fmt::print("       {}\n", next.text);
    next.act(scene_);
    held_ = 0;
    ++next_step_;
  }

  void drive() {
    if (!leader_) leader_ = std::make_shared<OperatorInstance>(wire_);
    step(leader_);
    if (asleep_ || !zombie_) return;
    if (zombie_is_done() || !step(zombie_)) zombie_.reset();
  }

  bool zombie_is_done() {
    const bool is_fenced = std::ranges::any_of(wire_.troubles, [](const Wire::Trouble& trouble) {
      return trouble.plan.fault == Fault::kZombie && trouble.plan.fenced;
    });
    return is_fenced || zombie_seconds_++ >= kZombieSeconds;
  }

  // False: it crashed. It lives on until its earlier turns have come to their ends: each finds it
  // dead.
  bool step(std::shared_ptr<OperatorInstance> instance) {
    try {
      scene_.laws.demand(instance->step(), "the operator is busy without end");
      return true;
    } catch (const Crash&) {
      if (leader_ == instance) leader_.reset();
      if (zombie_ == instance) zombie_.reset();
      return false;
    }
  }

  void rest() {
    // What could wait to be stored (job::patience) is stored by now.
    for (int i = 0; i < 2; ++i) {
      scene_.server.now += job::Seconds(31);
      second();
    }
    const int writes = wire_.writes;
    for (int i = 0; i < kRests; ++i) {
      scene_.server.now += job::Seconds(29);
      second();
    }
    scene_.laws.demand(wire_.writes == writes, "writes though nothing changes");
  }

  const Workload& workload_;
  Scene scene_;
  Wire wire_;
  std::shared_ptr<OperatorInstance> leader_, zombie_;
  bool asleep_ = false;  // the zombie
  int zombie_seconds_ = 0;
  std::size_t next_step_ = 0;
  int held_ = 0;
  int calm_ = 0;
};

}  // namespace

Outcome simulate(const Workload& workload, const FaultPlan& plan, Mutation mutation, bool trace) {
  return Simulation(workload, plan, mutation, trace).run();
}

namespace {

// Leaves out what the plan's faults explain.
void forgive(Json& state, const FaultPlan& plan) {
  const auto in_jobs = [&](const auto& forget) {
    if (state.contains("jobs"))
      for (Json& job : state.at("jobs")) forget(job);
  };
  // What a watch never told can't be in the words about it.
  if (plan.fault == Fault::kRelist || plan.fault == Fault::kLose || plan.fault == Fault::kRepeat)
    in_jobs([](Json& job) { job.erase("lastFailure"); });
  // What failed for long was told, and taken back. Of two that lead, the one whose creates were
  // refused does not hear that the other's were not.
  const bool fails_for_long =
      (plan.fault == Fault::kError || plan.fault == Fault::kHang) && plan.tries > kTriesOfACall;
  if (fails_for_long || (plan.fault == Fault::kZombie && !plan.fenced))
    in_jobs([](Json& job) {
      if (job.contains("conditions")) job.at("conditions").erase("ResourcesRejected");
    });
  // A create has no precondition: a group that is made late goes with the job.
  if (plan.fault == Fault::kZombie || is_late(plan)) state.erase("podgroups");
}

}  // namespace

std::optional<std::string> difference(const Outcome& undisturbed, const Outcome& outcome,
                                      const FaultPlan& plan) {
  Json expected = undisturbed.end;
  Json actual = outcome.end;
  for (Json* state : {&expected, &actual}) forgive(*state, plan);
  if (expected != actual)
    return fmt::format("another end: {}", Json::diff(expected, actual).dump());
  if (plan.fault == Fault::kZombie || is_late(plan)) return std::nullopt;
  for (const auto& [effect, count] : outcome.effects) {
    const auto usual = undisturbed.effects.find(effect);
    const int most = usual == undisturbed.effects.end() ? 0 : usual->second;
    // One whose making nobody heard of is left for another: its name was drawn.
    if (effect.starts_with("create secrets/") && most > 0 && count >= most) continue;
    // Whether it goes before its suspended job is resumed depends on which is seen first.
    if (effect.find(" podgroups/") != std::string::npos && most > 0 && count <= most + 1) continue;
    if (count != most) return fmt::format("{}: {} times instead of {}", effect, count, most);
  }
  const bool takes_time = plan.fault == Fault::kHang || plan.fault == Fault::kStep;
  const bool job_goes = outcome.effects.contains(fmt::format("delete trainingjobs/{}", kJob));
  for (const auto& [effect, count] : undisturbed.effects) {
    // A job whose time to live is over takes its pods along.
    if (takes_time && job_goes && effect.starts_with("delete pods/")) continue;
    if (!outcome.effects.contains(effect)) return fmt::format("{}: never", effect);
  }
  return std::nullopt;
}

}  // namespace coxswain::test
