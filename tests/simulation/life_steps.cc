#include "tests/simulation/life_steps.h"

#include <fmt/format.h>

namespace coxswain::test {

namespace {

Condition is_running(int attempt, int count) {
  return [=](const Scene& scene) {
    return scene.is_ready(attempt, count) && scene.phase_of(kJob) == "Running" &&
           scene.status_of(kJob).value("attempt", 0) == attempt;
  };
}

Condition has_phase(const std::string& phase, int living) {
  return [=](const Scene& scene) {
    return scene.phase_of(kJob) == phase && scene.living_pods() == living;
  };
}

}  // namespace

std::string worker(int index) { return fmt::format("{}-worker-{}", kJob, index); }

Json mpi(int workers) {
  return {{"replicaSpecs", {{"Worker", {{"replicas", workers}}}}},
          {"training", {{"model", "mlp"}, {"data", {{"format", "mnist"}}}, {"epochs", 1}}}};
}

Json env(int workers) {
  const Json pod = {{"containers", {{{"name", "trainer"}, {"image", "own:1"}}}}};
  return {{"replicaSpecs", {{"Worker", {{"replicas", workers}, {"template", {{"spec", pod}}}}}}}};
}

Json with(Json spec, const Json& run_policy) {
  spec["runPolicy"] = run_policy;
  return spec;
}

Condition always() {
  return [](const Scene&) { return true; };
}

Condition has_condition(const std::string& type) {
  return [=](const Scene& scene) { return scene.has_condition(kJob, type); };
}

Condition all_gone() {
  return [](const Scene& scene) {
    return scene.server.all("trainingjobs").empty() && scene.pods().empty() &&
           scene.server.all("services").empty() && scene.server.all("secrets").empty() &&
           scene.server.all("configmaps").empty();
  };
}

Act end(int index, int code) {
  return [=](Scene& scene) { scene.end_pod(worker(index), code); };
}

Act end_all(int count, int code) {
  return [=](Scene& scene) {
    for (int i = 0; i < count; ++i) scene.end_pod(worker(i), code);
  };
}

Act edit(const Json& spec) {
  return [=](Scene& scene) { scene.edit_spec(kJob, spec); };
}

void make_again_beside_a_mute_pod(Scene& scene) {
  scene.mute(worker(1));
  scene.delete_job(kJob);
  scene.create_job(kJob, mpi(2));
}

Step make(const Json& spec) {
  return {"the job is made", always(), [=](Scene& scene) { scene.create_job(kJob, spec); }};
}

Step runs(int attempt, int count, Act act) {
  return {fmt::format("attempt {} runs with {} pods", attempt, count), is_running(attempt, count),
          std::move(act)};
}

Step reached(const std::string& phase, int living, Act act) {
  return {fmt::format("{} with {} living pods", phase, living), has_phase(phase, living),
          std::move(act)};
}

void add_success(std::vector<Step>& steps, int attempt, int workers) {
  steps.push_back(runs(attempt, workers, end(0, 0)));
  steps.push_back(reached("Succeeded", 0));
}

Workload to_success(const std::string& name, const Json& spec, std::vector<Step> steps, int attempt,
                    int workers) {
  steps.insert(steps.begin(), make(spec));
  add_success(steps, attempt, workers);
  return {name, std::move(steps)};
}

}  // namespace coxswain::test
