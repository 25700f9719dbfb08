#pragma once

#include <string>
#include <string_view>

namespace coxswain::launch {

// Separates mpirun's framed messages from what ranks write to their error output.
//
// That a rank failed is told by the rank itself: mpirun's report of it is dropped. What mpirun says
// before any rank has started is the reason why none did: kept as `complaint`, in one line.
// Everything else passes unchanged and at once; a line of dashes waits for the line after it.
class ErrorFilter {
 public:
  // Returns what to show of `bytes` and what was held.
  std::string take(std::string_view bytes, bool ranks_started);
  std::string finish();  // no more comes

  const std::string& complaint() const { return complaint_; }

 private:
  enum class State { kOutside, kOpened, kDropping, kComplaining };

  std::string end_of_line(bool ranks_started);

  State state_ = State::kOutside;
  std::string line_;      // the line so far, if it may still have to be held
  std::string opening_;   // the line of dashes that waits
  bool passing_ = false;  // the rest of this line is none of ours
  std::string complaint_;
  bool complete_ = false;  // the complaint's first sentence is there
};

}  // namespace coxswain::launch
