#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/fault_plan.h"
#include "tests/simulation/scene.h"

namespace coxswain::test {

// What users and machines do to one job, step by step: each as soon as its condition has held for
// two seconds. The last does nothing: its condition is the end that must be reached.
struct Step {
  std::string text;
  std::function<bool(const Scene&)> when;
  std::function<void(Scene&)> act = [](Scene&) {};
};

struct Workload {
  std::string name;
  std::vector<Step> steps = {};
  job::Seconds skew{0};  // of the operator's clock against all others
};

struct Outcome {
  std::optional<std::string> breach;   // of a law, or of the promise to come to rest at the end
  Json end;                            // Scene::end_state()
  std::map<std::string, int> effects;  // "create pods/a" -> how often an operator did it
  std::vector<std::string> requests;
  std::map<std::string, int> revisions;  // of trainingjobs and pods
  bool happened = false;                 // the fault
};

// Plays the workload with the plan's fault. Deterministic.
Outcome simulate(const Workload& workload, const FaultPlan& plan,
                 Mutation mutation = Mutation::kNone, bool trace = false);

// How `outcome` differs from the undisturbed one beyond what the plan's fault explains.
std::optional<std::string> difference(const Outcome& undisturbed, const Outcome& outcome,
                                      const FaultPlan& plan);

std::vector<Workload> workloads();
const Workload& workload_named(const std::string& name);

}  // namespace coxswain::test
