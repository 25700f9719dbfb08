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

// Told of each pass that failed. Called by several threads at once.
using OnFailure = std::function<void(const std::string& key, const std::string& what)>;

// Resource. `workers` threads that take keys from the queue and reconcile them. An exception of one
// key is told and counted, and harms no other.
class Controller {
 public:
  // `queue` and `metrics` must outlive this.
  Controller(WorkQueue& queue, Reconcile reconcile, Metrics& metrics, int workers,
             OnFailure on_failure);

  // Until asked to stop, or the queue is shut down and empty; returns when all passes that had
  // begun have come to an end.
  void run(std::stop_token stop);

  bool turn();  // one pass, on the caller's thread; false: no key is due

 private:
  void work(const std::stop_token& stop);
  void pass(const WorkQueue::Item& item);  // one, and what follows from it

  WorkQueue& queue_;
  const Reconcile reconcile_;
  Metrics& metrics_;
  const int workers_;
  const OnFailure on_failure_;
};

}  // namespace coxswain::controller
