#include "operator/cluster/parallel.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>

namespace coxswain::cluster {

// The calls of one run(), taken one by one by whoever is free.
struct Parallel::Batch {
  explicit Batch(const std::vector<std::function<void()>>& all) : calls(all) {}

  // Makes calls until none is left to take.
  void work() {
    for (std::size_t i = next++; i < calls.size(); i = next++) {
      std::exception_ptr error;
      try {
        calls[i]();
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      if (error && !first_error) first_error = error;
      if (++ended == calls.size()) all_ended.notify_all();
    }
  }

  void wait() {
    std::unique_lock lock(mutex);
    all_ended.wait(lock, [&] { return ended == calls.size(); });
    if (first_error) std::rethrow_exception(first_error);
  }

  // Copied: a helper may look for a further call when the run is already over.
  const std::vector<std::function<void()>> calls;
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::condition_variable all_ended;
  std::size_t ended = 0;           // guarded by mutex
  std::exception_ptr first_error;  // guarded by mutex
};

struct Parallel::State {
  std::mutex mutex;
  std::condition_variable_any news;
  std::deque<std::shared_ptr<Batch>> wanted;  // guarded by mutex; once for each helper wanted
  std::vector<std::jthread> helpers;

  void help(std::stop_token stop) {
    for (;;) {
      std::shared_ptr<Batch> batch;
      {
        std::unique_lock lock(mutex);
        if (!news.wait(lock, stop, [&] { return !wanted.empty(); })) return;
        batch = std::move(wanted.front());
        wanted.pop_front();
      }
      batch->work();
    }
  }
};

Parallel::Parallel(int helpers) : state_(std::make_unique<State>()) {
  for (int i = 0; i < helpers; ++i)
    state_->helpers.emplace_back(
        [state = state_.get()](std::stop_token stop) { state->help(stop); });
}

Parallel::~Parallel() { state_->helpers.clear(); }

void Parallel::run(const std::vector<std::function<void()>>& calls) {
  const auto batch = std::make_shared<Batch>(calls);
  if (calls.size() > 1) {
    const std::size_t helpers = std::min(calls.size() - 1, state_->helpers.size());
    const std::lock_guard lock(state_->mutex);
    state_->wanted.insert(state_->wanted.end(), helpers, batch);
    state_->news.notify_all();
  }
  batch->work();
  if (!calls.empty()) batch->wait();
}

}  // namespace coxswain::cluster
