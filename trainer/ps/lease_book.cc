#include "trainer/ps/lease_book.h"

#include <algorithm>

namespace coxswain::ps {

void LeaseBook::open(std::int64_t first, std::int64_t fence) {
  for (auto& [number, worker] : workers_) worker = {};
  done_ = StepSet(first);
  returned_.clear();
  next_ = first;
  fence_ = fence;
}

void LeaseBook::restore(const StepSet& done, std::int64_t next, std::int64_t fence) {
  open(done.low(), fence);
  done_ = done;
  next_ = next;
  for (std::int64_t step = done.low(); step < next; ++step)
    if (!done.contains(step)) returned_.insert(step);
}

std::map<int, LeaseBook::Worker>::const_iterator LeaseBook::slowest() const {
  return std::ranges::min_element(workers_, {},
                                  [](const auto& worker) { return worker.second.finished; });
}

void LeaseBook::join(int worker) {
  if (workers_.contains(worker)) return;
  const auto slowest = this->slowest();
  const std::int64_t finished = slowest == workers_.end() ? 0 : slowest->second.finished;
  workers_[worker] = {.finished = finished};
}

void LeaseBook::leave(int worker) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  for (const std::int64_t step : found->second.leased)
    if (!done_.contains(step)) returned_.insert(step);
  workers_.erase(found);
}

std::optional<std::int64_t> LeaseBook::first_free() const {
  if (!returned_.empty()) return *returned_.begin();
  if (next_ < fence_) return next_;
  return std::nullopt;
}

std::optional<int> LeaseBook::held_by(int worker) const {
  const auto found = workers_.find(worker);
  if (!staleness_ || found == workers_.end() || !first_free()) return std::nullopt;
  const auto slowest = this->slowest();
  const Worker& asks = found->second;
  const std::int64_t will_have = asks.finished + static_cast<std::int64_t>(asks.leased.size());
  if (will_have - slowest->second.finished <= *staleness_) return std::nullopt;
  return slowest->first;
}

std::optional<std::int64_t> LeaseBook::lease(int worker) {
  const auto found = workers_.find(worker);
  const auto step = first_free();
  if (found == workers_.end() || !step || held_by(worker)) return std::nullopt;
  if (returned_.erase(*step) == 0) ++next_;
  found->second.leased.insert(*step);
  return step;
}

bool LeaseBook::finish(int worker, std::int64_t step) {
  if (const auto found = workers_.find(worker); found != workers_.end()) {
    found->second.leased.erase(step);
    ++found->second.finished;
  }
  returned_.erase(step);
  return step < next_ && done_.insert(step);
}

}  // namespace coxswain::ps
