#pragma once

#include <cstdint>
#include <set>

// PURE: which steps are done.
namespace coxswain::ps {

// Value. All steps below a mark, and some beyond it.
class StepSet {
 public:
  explicit StepSet(std::int64_t first = 0) : low_(first) {}
  bool operator==(const StepSet&) const = default;

  std::int64_t low() const { return low_; }  // all below are in it
  const std::set<std::int64_t>& beyond() const { return beyond_; }
  std::int64_t size() const { return low_ + static_cast<std::int64_t>(beyond_.size()); }
  bool contains(std::int64_t step) const { return step < low_ || beyond_.contains(step); }

  // False: it was there.
  bool insert(std::int64_t step) {
    if (step < low_ || !beyond_.insert(step).second) return false;
    while (!beyond_.empty() && *beyond_.begin() == low_) {
      beyond_.erase(beyond_.begin());
      ++low_;
    }
    return true;
  }

 private:
  std::int64_t low_;
  std::set<std::int64_t> beyond_;
};

}  // namespace coxswain::ps
