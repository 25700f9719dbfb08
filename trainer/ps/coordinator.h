#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "trainer/ps/lease_book.h"
#include "trainer/ps/minutes.h"

namespace coxswain::ps {

// What the coordinator asks of those who carry its messages.
class CoordinatorOutbox {
 public:
  virtual ~CoordinatorOutbox() = default;
  // A worker that asked gets a step, with what the others have come to.
  virtual void lease(int worker, std::int64_t step) = 0;
  // By the slowest one; by itself: by nobody, any more.
  virtual void held(int worker, int by) = 0;
  // To worker 0: all steps up to `step` are done.
  virtual void cut(int fence, std::int64_t step, bool stop) = 0;
  // How often a fence was set, and what worker 0 noted with the newest.
  virtual void standing(int worker, int fence) = 0;
  virtual void end(int worker, bool saved) = 0;
};

// Who computes what in asynchronous training, as a state machine: no thread, no clock, no socket.
//
// Worker 0 drives. It sets a fence, with a note that says all that its successor would need; when
// all steps below are done it hears of the cut, at which nobody trains, and sets the next fence, or
// ends training. Whatever is said again changes nothing.
class Coordinator {
 public:
  Coordinator(std::optional<std::int64_t> staleness, CoordinatorOutbox& outbox)
      : book_(staleness), outbox_(outbox) {}

  const Totals& totals() const { return totals_; }
  const std::string& note() const { return note_; }
  int fences() const { return fence_; }
  bool is_training() const { return fence_ > 0; }
  // Nothing goes on before worker 0 says more.
  bool needs_leader() const { return !end_ && (fence_ == 0 || is_cut_); }

  void joined(int worker);
  void left(int worker);
  void asks_lease(int worker);
  // `staleness`: of the step's update, where it is known.
  void done(int worker, std::int64_t step, const StepSums& sums, std::int64_t staleness);
  // Of a worker: no new step, for now.
  void cut_now(bool stop);
  // Of worker 0: so many steps are done before the first fence.
  void begin(std::int64_t step) { book_.open(step, step); }
  // What must outlive it, and to go on from there: workers say the rest again.
  Minutes minutes() const;
  void restore(const Minutes& minutes);
  // Of worker 0, then and at each cut: number `fence`, before step `step`.
  void set_fence(int fence, std::int64_t step, std::string note);
  void end(bool saved);

 private:
  void grant();
  void tell_cut();

  LeaseBook book_;
  CoordinatorOutbox& outbox_;
  int fence_ = 0;  // how many were set
  std::string note_;
  Totals totals_;
  bool is_cut_ = false;
  bool stop_ = false;           // was asked for
  std::optional<bool> end_;     // whether it was saved
  std::deque<int> asking_;      // for one step each, in the order in which they asked
  std::map<int, int> held_by_;  // as told
};

}  // namespace coxswain::ps
