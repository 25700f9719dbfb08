#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "trainer/backend/control.h"
#include "trainer/contract/worker/ranks_page.h"

namespace coxswain::report {

// Value. What each rank said last, and which one keeps the others waiting. The clock is given.
class RankTable {
 public:
  using Time = std::chrono::system_clock::time_point;

  void begin(int world_size);  // a run of so many; forgets
  void add(const backend::RankFigures& figures, Time now);
  contract::RanksPage page(int first, Time now) const;

 private:
  struct Row {
    contract::RankRow said;
    Time time;
  };
  struct Slowest {
    int rank;
    double behind;
    Time since;
  };
  std::optional<Slowest> find_slowest(Time now) const;

  int world_size_ = 0;
  std::map<int, Row> rows_;
  std::optional<Slowest> slowest_;
};

}  // namespace coxswain::report
