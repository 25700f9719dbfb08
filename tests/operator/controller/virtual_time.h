#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace coxswain::test {

// A clock for threads that take turns: one runs at a time, and time passes only while all sleep. So
// what they do depends on their seeds alone.
class VirtualTime {
 public:
  using Time = std::chrono::nanoseconds;

  // `on_step` is called whenever all sleep.
  VirtualTime(int num_threads, std::function<void()> on_step)
      : running_(num_threads), on_step_(std::move(on_step)) {}

  Time now() const { return Time(now_.load()); }

  // `thread` is its number: of those who wake at the same time, the lowest is first. Each thread
  // begins with this.
  void sleep(int thread, Time time) {
    std::unique_lock lock(mutex_);
    const std::pair turn{now() + time, thread};
    sleepers_.emplace(turn, false);
    pause();
    awake_.wait(lock, [&] { return sleepers_.at(turn); });
    sleepers_.erase(turn);
  }

  // The thread is through.
  void leave() {
    const std::lock_guard lock(mutex_);
    pause();
  }

 private:
  // With mutex_ held: one thread fewer runs; if it was the last, time goes on to the next turn.
  void pause() {
    if (--running_ > 0) return;
    on_step_();
    if (sleepers_.empty()) return;
    const auto next = sleepers_.begin();
    now_ = next->first.first.count();
    next->second = true;
    running_ = 1;
    awake_.notify_all();
  }

  std::atomic<Time::rep> now_ = 0;
  std::mutex mutex_;  // guards all below
  std::condition_variable awake_;
  std::map<std::pair<Time, int>, bool> sleepers_;  // true: its turn
  int running_;
  const std::function<void()> on_step_;
};

}  // namespace coxswain::test
