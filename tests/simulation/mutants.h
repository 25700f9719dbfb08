#pragma once

#include <string>
#include <vector>

#include "operator/reconciler.h"
#include "tests/simulation/simulation.h"

namespace coxswain::test {

// A planner that breaks one rule, made from the real one by changing what it is given or what it
// says. Some law must notice.
struct Mutant {
  std::string name;
  Reconciler::Planner planner;
  Variant variant;
};

std::vector<Mutant> mutants();

}  // namespace coxswain::test
