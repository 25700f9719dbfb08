#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "operator/reconciler.h"

namespace coxswain::test {

// What one life of a job met; summed over seeds, it shows that the rare branches were taken.
struct Coverage {
  int lives = 0, succeeded = 0, failed = 0, suspended = 0, running = 0;
  int failures = 0, preemptions = 0, nodes = 0, startups = 0, resizes = 0;
  int writes = 0;
};

// Lives one job's life under the faults that `seed` draws, then lets the world calm down and waits
// for it to settle. The first breach of a law, or nothing.
struct Variant {
  bool client_checks_version = true;
  bool trace = false;  // print every call that reaches the API server
};
std::optional<std::string> simulate(std::uint64_t seed, const Reconciler::Planner& planner,
                                    Coverage& coverage, Variant variant = {});

}  // namespace coxswain::test
