#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "trainer/ps/step_set.h"

namespace coxswain::ps {

// Which worker computes which step, where each computes steps of its own: no thread, no clock.
//
// A step is leased to one worker at a time; one that leaves gives back what it has. No step at or
// beyond the fence is leased. With a bound, a worker gets no step that would put it more than that
// many finished steps ahead of the slowest one there (stale synchronous parallel: Ho et al., NIPS
// 2013, section 3), counted from the last fence on.
class LeaseBook {
 public:
  // `staleness`: the bound, if there is one.
  explicit LeaseBook(std::optional<std::int64_t> staleness = std::nullopt)
      : staleness_(staleness) {}

  // All steps below `first` are done, and none of the others is leased.
  void open(std::int64_t first, std::int64_t fence);
  // These are done, and of the others below `next` nobody is known to have any.
  void restore(const StepSet& done, std::int64_t next, std::int64_t fence);
  const StepSet& done() const { return done_; }
  std::int64_t next() const { return next_; }  // was never leased
  // No step is leased any more that never was.
  void close() { fence_ = next_; }
  bool is_drained() const { return done_.low() >= fence_; }
  std::int64_t fence() const { return fence_; }

  // It counts as having finished as many steps as the slowest one.
  void join(int worker);
  void leave(int worker);
  std::optional<std::int64_t> lease(int worker);  // nullopt: there is none now
  // False: another has finished it before.
  bool finish(int worker, std::int64_t step);

  // The slowest one, if the bound keeps this one from a step that there is.
  std::optional<int> held_by(int worker) const;

 private:
  struct Worker {
    std::int64_t finished = 0;
    std::set<std::int64_t> leased = {};
  };

  std::optional<std::int64_t> first_free() const;
  std::map<int, Worker>::const_iterator slowest() const;

  const std::optional<std::int64_t> staleness_;
  std::map<int, Worker> workers_;  // that are there
  StepSet done_;
  std::set<std::int64_t> returned_;  // leased to one that left
  std::int64_t next_ = 0;            // was never leased
  std::int64_t fence_ = 0;
};

}  // namespace coxswain::ps
