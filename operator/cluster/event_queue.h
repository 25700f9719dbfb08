#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>

#include "operator/job/training_job.h"

namespace coxswain::cluster {

struct EventQueueOptions {
  std::size_t most = 2000;                     // that wait
  std::chrono::milliseconds flush{1000};       // how long to go on when asked to stop
  std::function<bool(const job::Json&)> send;  // false: it could not be told
  std::function<void()> dropped = [] {};
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

// Resource. Events on their way to the API server, apart from decisions, which never wait for them.
// They go out one by one in the order in which they came, so those of a job in theirs. What is too
// much, or can't be told, is dropped and counted. Thread-safe.
class EventQueue {
 public:
  explicit EventQueue(EventQueueOptions options);

  void add(job::Json event);  // never waits

  // Until asked to stop; then what waits goes out as far as the time suffices.
  void run(std::stop_token stop);

 private:
  std::optional<job::Json> next(std::stop_token stop);  // nullopt: asked to stop
  std::optional<job::Json> take();                      // nullopt: none waits
  void send(const job::Json& event);

  const EventQueueOptions options_;
  std::mutex mutex_;
  std::condition_variable_any added_;
  std::deque<job::Json> waiting_;  // guarded by mutex_
};

}  // namespace coxswain::cluster
