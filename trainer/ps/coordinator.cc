#include "trainer/ps/coordinator.h"

#include <algorithm>
#include <utility>

namespace coxswain::ps {

void Coordinator::joined(int worker) {
  if (end_) return outbox_.end(worker, *end_);
  outbox_.standing(worker, fence_);
  if (worker == 0 && is_cut_) tell_cut();
}

void Coordinator::left(int worker) {
  std::erase(asking_, worker);
  held_by_.erase(worker);
  book_.leave(worker);
  grant();
}

void Coordinator::asks_lease(int worker) {
  if (end_) return outbox_.end(worker, *end_);
  book_.join(worker);
  asking_.push_back(worker);
  grant();
}

// Who asked first is served first, unless the bound holds it.
void Coordinator::grant() {
  std::deque<int> still_asking;
  for (const int worker : std::exchange(asking_, {})) {
    if (const auto step = book_.lease(worker)) {
      held_by_.erase(worker);
      outbox_.lease(worker, *step);
      continue;
    }
    still_asking.push_back(worker);
    const int by = book_.held_by(worker).value_or(worker);
    int& told = held_by_.try_emplace(worker, worker).first->second;
    if (std::exchange(told, by) != by) outbox_.held(worker, by);
  }
  asking_ = std::move(still_asking);
}

void Coordinator::done(int worker, std::int64_t step, const StepSums& sums,
                       std::int64_t staleness) {
  if (book_.finish(worker, step)) {
    ++totals_.steps;
    if (sums.skipped > 0) {
      ++totals_.skipped;
      ++totals_.skipped_in_a_row;
    } else {
      totals_.skipped_in_a_row = 0;
      totals_.most_staleness = std::max(totals_.most_staleness, staleness);
      totals_.staleness += static_cast<double>(staleness);
      totals_.samples += sums.samples;
      totals_.loss += sums.loss;
      totals_.correct += sums.correct;
    }
  }
  grant();
  if (!is_cut_ && book_.is_drained()) tell_cut();
}

void Coordinator::cut_now(bool stop) {
  stop_ = stop_ || stop;
  if (!is_training() || is_cut_) return;
  book_.close();
  if (book_.is_drained()) tell_cut();
}

void Coordinator::tell_cut() {
  is_cut_ = true;
  outbox_.cut(fence_, book_.fence(), stop_);
}

void Coordinator::set_fence(int fence, std::int64_t step, std::string note) {
  if (fence != fence_ + 1) return;
  fence_ = fence;
  note_ = std::move(note);
  totals_ = {.skipped_in_a_row = totals_.skipped_in_a_row};
  is_cut_ = false;
  book_.open(book_.fence(), step);
  if (stop_) return cut_now(true);
  grant();
}

Minutes Coordinator::minutes() const {
  return {fence_, book_.fence(), book_.next(), book_.done(), is_cut_, stop_, end_, totals_, note_};
}

void Coordinator::restore(const Minutes& minutes) {
  book_.restore(minutes.done, minutes.next, minutes.fence);
  fence_ = minutes.fences;
  is_cut_ = minutes.is_cut;
  stop_ = minutes.stop;
  end_ = minutes.end;
  totals_ = minutes.totals;
  note_ = minutes.note;
}

void Coordinator::end(bool saved) {
  end_ = saved;
  outbox_.end(0, saved);
  for (const int worker : std::exchange(asking_, {})) outbox_.end(worker, saved);
}

}  // namespace coxswain::ps
