#pragma once

#include <string>
#include <vector>

#include "tests/simulation/kube_simulation.h"

// Words in which the life of one job is written down.
namespace coxswain::test {

inline constexpr const char* kJob = "mnist";

std::string worker(int index);  // the pod's name

// Specs.
Json mpi(int workers);
Json env(int workers);
Json with(Json spec, const Json& run_policy);

using Condition = std::function<bool(const Scene&)>;
using Act = std::function<void(Scene&)>;

Condition always();
Condition has_condition(const std::string& type);
Condition all_gone();

Act end(int index, int code);
Act end_all(int count, int code);
Act edit(const Json& spec);

// The job, beside a pod of before that does not go.
void make_again_beside_a_mute_pod(Scene& scene);

Step make(const Json& spec);
// All `count` pods of the attempt are Ready, and the operator said so: what happens before that is
// another life, with another end.
Step runs(int attempt, int count, Act act = [](Scene&) {});
// The phase, and so many pods that live.
Step reached(const std::string& phase, int living, Act act = [](Scene&) {});

// Rank 0 of an MPI job ends well in attempt `attempt`.
void add_success(std::vector<Step>& steps, int attempt, int workers);
// The job is made, then these, then success.
Workload to_success(const std::string& name, const Json& spec, std::vector<Step> steps, int attempt,
                    int workers);

}  // namespace coxswain::test
