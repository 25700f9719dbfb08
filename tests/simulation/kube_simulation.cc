#include "tests/simulation/kube_simulation.h"

#include <fmt/format.h>

#include <memory>

#include "tests/simulation/operator_instance.h"

namespace coxswain::test {

namespace {

constexpr int kMostSeconds = 900;
constexpr int kCalmSeconds = 34;  // longer than the operator keeps observations to itself
constexpr int kRests = 20;        // of half a minute, in which nobody writes any more
constexpr int kHold = 2;
constexpr int kTriesOfACall = 4;    // after which the client gives up
constexpr int kZombieSeconds = 40;  // that it goes on after waking

class Simulation {
 public:
  Simulation(const Workload& workload, const FaultPlan& plan, Mutation mutation, bool trace)
      : workload_(workload),
        wire_{.scene = scene_,
              .plan = plan,
              .mutation = mutation,
              .trace = trace,
              .parameter_server = workload.parameter_server,
              .skew = workload.skew} {
    scene_.server.on_change = [this](const std::string& resource, const Object& before,
                                     const Object& after) {
      scene_.laws.before_change(resource, before, after);
    };
    wire_.take_over = [this] {
      zombie_ = std::move(leader_);
      asleep_ = true;
      for (int i = 0; i < wire_.plan.seconds && !scene_.laws.breach() && !is_over(); ++i) second();
      asleep_ = false;
    };
  }

  Outcome run() {
    int seconds = 0;
    while (seconds++ < kMostSeconds && !scene_.laws.breach() && !is_over()) second();
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
    outcome.requests = wire_.log;
    for (const Revision& revision : scene_.server.history()) ++outcome.revisions[revision.resource];
    outcome.happened = wire_.happened || wire_.silent_until.has_value();
    return outcome;
  }

 private:
  bool is_over() const { return next_step_ == workload_.steps.size() && calm_ >= kCalmSeconds; }

  void second() {
    const std::uint64_t version = scene_.server.version();
    const int requests = wire_.requests;
    scene_.step();
    play();
    drive();
    const bool moved = scene_.server.version() != version || wire_.requests != requests;
    const bool silent = wire_.silent_until && scene_.server.now < *wire_.silent_until;
    calm_ = moved || silent || zombie_ ? 0 : calm_ + 1;
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
    if (!leader_) leader_ = std::make_unique<OperatorInstance>(wire_);
    OperatorInstance* const acting = leader_.get();
    const bool survives = step(*acting);
    // Meanwhile it may have become the zombie.
    if (!survives) (leader_.get() == acting ? leader_ : zombie_).reset();
    if (asleep_ || !zombie_) return;
    if (wire_.plan.fenced || zombie_seconds_++ >= kZombieSeconds || !step(*zombie_))
      zombie_.reset();
  }

  // False: it crashed.
  bool step(OperatorInstance& instance) {
    try {
      scene_.laws.demand(instance.step(), "the operator is busy without end");
      return true;
    } catch (const Crash&) {
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
  std::unique_ptr<OperatorInstance> leader_, zombie_;
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

std::optional<std::string> difference(const Outcome& undisturbed, const Outcome& outcome,
                                      const FaultPlan& plan) {
  Json expected = undisturbed.end;
  Json actual = outcome.end;
  // What a watch never told can't be in the words about it.
  if (plan.fault == Fault::kRelist || plan.fault == Fault::kLose)
    for (Json* state : {&expected, &actual})
      if (state->contains("jobs"))
        for (Json& job : state->at("jobs")) job.erase("lastFailure");
  // What failed for long was told, and taken back.
  if (plan.fault == Fault::kError && plan.tries > kTriesOfACall)
    for (Json* state : {&expected, &actual})
      if (state->contains("jobs"))
        for (Json& job : state->at("jobs"))
          if (job.contains("conditions")) job.at("conditions").erase("ResourcesRejected");
  // Of two that lead, the one whose creates were refused does not hear that the other's were not.
  if (plan.fault == Fault::kZombie && !plan.fenced)
    for (Json* state : {&expected, &actual})
      if (state->contains("jobs"))
        for (Json& job : state->at("jobs"))
          if (job.contains("conditions")) job.at("conditions").erase("ResourcesRejected");
  // A create has no precondition: a group that the one who slept makes late goes with the job.
  if (plan.fault == Fault::kZombie)
    for (Json* state : {&expected, &actual}) state->erase("podgroups");
  if (expected != actual)
    return fmt::format("another end: {}", Json::diff(expected, actual).dump());
  if (plan.fault == Fault::kZombie) return std::nullopt;
  for (const auto& [effect, count] : outcome.effects) {
    const auto usual = undisturbed.effects.find(effect);
    const int most = usual == undisturbed.effects.end() ? 0 : usual->second;
    // One whose making nobody heard of is left for another: its name was drawn.
    if (effect.starts_with("create secrets/") && most > 0 && count >= most) continue;
    // Whether it goes before its suspended job is resumed depends on which is seen first.
    if (effect.find(" podgroups/") != std::string::npos && most > 0 && count <= most + 1) continue;
    if (count != most) return fmt::format("{}: {} times instead of {}", effect, count, most);
  }
  for (const auto& [effect, count] : undisturbed.effects)
    if (!outcome.effects.contains(effect)) return fmt::format("{}: never", effect);
  return std::nullopt;
}

}  // namespace coxswain::test
