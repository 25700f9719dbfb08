#pragma once

#include <chrono>
#include <optional>
#include <vector>

namespace coxswain::comm {

// Who has been silent for how long. The clock is given; all times are of one steady clock.
class Liveness {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Silent {
    int rank = 0;
    double seconds = 0;
  };

  Liveness(int rank, int size, std::chrono::nanoseconds deadline, Time now);

  void heard(int rank, Time now);

  // The most silent peer, if it is past the deadline. To be called often: what passed while this
  // rank itself stood still is not held against the others, whose beats may lie unread.
  std::optional<Silent> check(Time now);

 private:
  int rank_;
  std::chrono::nanoseconds deadline_;
  Time last_check_;
  std::vector<Time> heard_;
};

}  // namespace coxswain::comm
