#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "operator/kube/client.h"

namespace coxswain::controller {

// Resource. Keys to be worked on, with the contract of client-go's workqueue: a key waits at most
// once; one that is added while it is worked on comes again after done(); no key is worked on by
// two at once. Thread-safe.
class WorkQueue {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WorkQueue(kube::Clock clock = {});
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void add(const std::string& key);
  // Not before `delay` is over; of several times for one key the earliest stands.
  void add_after(const std::string& key, Clock::duration delay);
  // After 5 ms, doubled with each time since forget(), at most 60 s, a tenth of it random.
  void add_rate_limited(const std::string& key);
  void forget(const std::string& key);

  struct Item {
    std::string key;
    Clock::time_point added;  // when it became due: what waits since then is the queue's delay
  };
  // Blocks until a key is due, for its worker alone until done(). nullopt: shut down, or asked to
  // stop.
  std::optional<Item> get(std::stop_token stop);
  std::optional<Item> try_get();  // nullopt: none is due now
  void done(const std::string& key);

  std::optional<Clock::time_point> next_time() const;  // when a key will be due that is not yet
  std::size_t size() const;  // due, not those that wait for their time
  void shut_down();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coxswain::controller
