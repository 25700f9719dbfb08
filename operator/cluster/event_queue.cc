#include "operator/cluster/event_queue.h"

#include <utility>

namespace coxswain::cluster {

EventQueue::EventQueue(EventQueueOptions options) : options_(std::move(options)) {}

void EventQueue::add(job::Json event) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() < options_.most) {
      waiting_.push_back(std::move(event));
      added_.notify_one();
      return;
    }
  }
  options_.dropped();
}

void EventQueue::run(std::stop_token stop) {
  while (const auto event = next(stop)) send(*event);
  const auto end = options_.now() + options_.flush;
  while (const auto event = take()) {
    if (options_.now() < end) {
      send(*event);
    } else {
      options_.dropped();
    }
  }
}

std::optional<job::Json> EventQueue::next(std::stop_token stop) {
  {
    std::unique_lock lock(mutex_);
    added_.wait(lock, stop, [this] { return !waiting_.empty(); });
  }
  return stop.stop_requested() ? std::nullopt : take();
}

std::optional<job::Json> EventQueue::take() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return std::nullopt;
  job::Json event = std::move(waiting_.front());
  waiting_.pop_front();
  return event;
}

void EventQueue::send(const job::Json& event) {
  if (!options_.send(event)) options_.dropped();
}

}  // namespace coxswain::cluster
