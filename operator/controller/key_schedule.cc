#include "operator/controller/key_schedule.h"

#include <algorithm>
#include <cstdint>

namespace coxswain::controller {

void KeySchedule::add(const std::string& key, Time now) {
  const auto [place, was_idle] = places_.try_emplace(key, Place{Stage::kDue, now});
  if (was_idle) {
    due_.push_back(key);
  } else if (place->second.stage == Stage::kWorking) {
    place->second = {Stage::kWorkingAgain, now};
  }
}

void KeySchedule::add_at(const std::string& key, Time when) {
  const auto [known, is_new] = waits_until_.try_emplace(key, when);
  if (!is_new) {
    if (known->second <= when) return;
    waiting_.erase({known->second, key});
    known->second = when;
  }
  waiting_.emplace(when, key);
}

void KeySchedule::advance(Time now) {
  while (!waiting_.empty() && waiting_.begin()->first <= now) {
    const auto [when, key] = *waiting_.begin();
    waiting_.erase(waiting_.begin());
    waits_until_.erase(key);
    add(key, when);
  }
}

std::optional<KeySchedule::Item> KeySchedule::take() {
  if (due_.empty()) return std::nullopt;
  Item item{std::move(due_.front()), {}};
  due_.pop_front();
  Place& place = places_.at(item.key);
  item.added = place.added;
  place.stage = Stage::kWorking;
  return item;
}

void KeySchedule::done(const std::string& key) {
  const auto place = places_.find(key);
  if (place == places_.end()) return;
  if (place->second.stage == Stage::kWorkingAgain) {
    place->second.stage = Stage::kDue;
    due_.push_back(key);
  } else if (place->second.stage == Stage::kWorking) {
    places_.erase(place);
  }
}

std::optional<KeySchedule::Time> KeySchedule::next_time() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->first;
}

std::chrono::nanoseconds retry_delay(int failures, double random) {
  constexpr std::chrono::nanoseconds kFirst = std::chrono::milliseconds(5);
  constexpr std::chrono::nanoseconds kMost = std::chrono::seconds(60);
  const int doublings = std::clamp(failures, 0, 20);  // 5 ms * 2^20 is over the most
  const auto full = std::min(kMost, kFirst * (std::int64_t{1} << doublings));
  return full - std::chrono::nanoseconds(static_cast<std::int64_t>(full.count() * 0.1 * random));
}

}  // namespace coxswain::controller
