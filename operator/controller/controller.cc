#include "operator/controller/controller.h"

#include <ctime>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace coxswain::controller {

namespace {

std::chrono::nanoseconds thread_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

Controller::Controller(WorkQueue& queue, Reconcile reconcile, Metrics& metrics, int workers,
                       OnFailure on_failure)
    : queue_(queue),
      reconcile_(std::move(reconcile)),
      metrics_(metrics),
      workers_(workers),
      on_failure_(std::move(on_failure)) {}

void Controller::run(std::stop_token stop) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < workers_; ++i) threads.emplace_back([this, stop] { work(stop); });
}

void Controller::work(const std::stop_token& stop) {
  while (const auto item = queue_.get(stop)) pass(*item);
}

bool Controller::turn() {
  const auto item = queue_.try_get();
  if (item) pass(*item);
  return item.has_value();
}

void Controller::pass(const WorkQueue::Item& item) {
  const std::string& key = item.key;
  const auto began = WorkQueue::Clock::now();
  const auto cpu_began = thread_time();
  metrics_.count_queue_wait(began - item.added);
  metrics_.set_queue_depth(queue_.size());
  bool failed = false;
  try {
    const auto delay = reconcile_(key);
    queue_.forget(key);
    if (delay) queue_.add_after(key, *delay);
  } catch (const std::exception& error) {
    failed = true;
    on_failure_(key, error.what());
    queue_.add_rate_limited(key);
  }
  metrics_.count_reconcile(WorkQueue::Clock::now() - began, thread_time() - cpu_began, failed);
  queue_.done(key);
}

}  // namespace coxswain::controller
