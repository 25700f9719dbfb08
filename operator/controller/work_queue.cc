#include "operator/controller/work_queue.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "operator/controller/key_schedule.h"

namespace coxswain::controller {

struct WorkQueue::State {
  explicit State(kube::Clock given) : clock(std::move(given)) {}

  const kube::Clock clock;
  std::mutex mutex;                   // guards all below
  std::condition_variable_any moved;  // a key is due, the next time is earlier, or shut down
  KeySchedule schedule;
  std::map<std::string, int> failures;  // in a row, by key
  bool is_shut_down = false;
};

WorkQueue::WorkQueue(kube::Clock clock) : state_(std::make_unique<State>(std::move(clock))) {}
WorkQueue::~WorkQueue() = default;

void WorkQueue::add(const std::string& key) {
  const std::lock_guard lock(state_->mutex);
  if (state_->is_shut_down) return;
  const std::size_t before = state_->schedule.num_due();
  state_->schedule.add(key, state_->clock.now());
  if (state_->schedule.num_due() > before) state_->moved.notify_one();
}

void WorkQueue::add_after(const std::string& key, Clock::duration delay) {
  if (delay <= Clock::duration::zero()) return add(key);
  const std::lock_guard lock(state_->mutex);
  if (state_->is_shut_down) return;
  const auto before = state_->schedule.next_time();
  state_->schedule.add_at(key, state_->clock.now() + delay);
  // All who wait do so until the next time, so that whoever is left when another takes a key still
  // wakes for it.
  if (before != state_->schedule.next_time()) state_->moved.notify_all();
}

void WorkQueue::add_rate_limited(const std::string& key) {
  Clock::duration delay;
  {
    const std::lock_guard lock(state_->mutex);
    delay = retry_delay(state_->failures[key]++, state_->clock.random());
  }
  add_after(key, delay);
}

void WorkQueue::forget(const std::string& key) {
  const std::lock_guard lock(state_->mutex);
  state_->failures.erase(key);
}

std::optional<WorkQueue::Item> WorkQueue::get(std::stop_token stop) {
  std::unique_lock lock(state_->mutex);
  const auto is_ready = [this] {
    if (!state_->is_shut_down) state_->schedule.advance(state_->clock.now());
    return state_->schedule.num_due() > 0 || state_->is_shut_down;
  };
  while (!stop.stop_requested()) {
    if (is_ready()) {
      auto item = state_->schedule.take();
      if (!item) return std::nullopt;
      // More became due at once than there were calls of add().
      if (state_->schedule.num_due() > 0) state_->moved.notify_one();
      return Item{std::move(item->key), item->added};
    }
    const auto next = state_->schedule.next_time();
    const auto is_earlier = [&] { return is_ready() || state_->schedule.next_time() != next; };
    if (next) {
      state_->moved.wait_until(lock, stop, *next, is_earlier);
    } else {
      state_->moved.wait(lock, stop, is_earlier);
    }
  }
  return std::nullopt;
}

std::optional<WorkQueue::Item> WorkQueue::try_get() {
  const std::lock_guard lock(state_->mutex);
  state_->schedule.advance(state_->clock.now());
  auto item = state_->schedule.take();
  if (!item) return std::nullopt;
  return Item{std::move(item->key), item->added};
}

void WorkQueue::done(const std::string& key) {
  const std::lock_guard lock(state_->mutex);
  state_->schedule.done(key);
  if (state_->schedule.num_due() > 0) state_->moved.notify_one();
}

std::optional<WorkQueue::Clock::time_point> WorkQueue::next_time() const {
  const std::lock_guard lock(state_->mutex);
  return state_->schedule.next_time();
}

std::size_t WorkQueue::size() const {
  const std::lock_guard lock(state_->mutex);
  return state_->schedule.num_due();
}

void WorkQueue::shut_down() {
  const std::lock_guard lock(state_->mutex);
  state_->is_shut_down = true;
  state_->moved.notify_all();
}

}  // namespace coxswain::controller
