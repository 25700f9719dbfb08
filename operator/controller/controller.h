#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "operator/controller/metrics.h"
#include "operator/controller/work_queue.h"

namespace coxswain::controller {

// What to do with one key. nullopt: nothing until something happens; else come again after that
// time (0: at once). Throws Error: come again, later with each failure in a row.
using Reconcile = std::function<std::optional<std::chrono::milliseconds>(const std::string& key)>;

// Resource. `workers` threads that take keys from the queue and reconcile them. An exception of one
// key is logged and counted, and harms no other.
class Controller {
 public:
  Controller(WorkQueue& queue, Reconcile reconcile, Metrics& metrics, int workers);

  void run(std::stop_token stop);  // until asked to stop; returns when all have come to an end
};

}  // namespace coxswain::controller
