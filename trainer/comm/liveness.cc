#include "trainer/comm/liveness.h"

#include <algorithm>

namespace coxswain::comm {

namespace {
constexpr auto kStoodStill = std::chrono::milliseconds(500);
}

Liveness::Liveness(int rank, int size, std::chrono::nanoseconds deadline, Time now)
    : rank_(rank),
      deadline_(deadline),
      last_check_(now),
      heard_(static_cast<std::size_t>(size), now) {}

void Liveness::heard(int rank, Time now) { heard_[static_cast<std::size_t>(rank)] = now; }

std::optional<Liveness::Silent> Liveness::check(Time now) {
  const auto gap = now - last_check_;
  last_check_ = now;
  if (gap > kStoodStill) {
    for (Time& heard : heard_) heard = std::min(now, heard + gap);
  }
  heard_[static_cast<std::size_t>(rank_)] = now;
  const auto oldest = std::min_element(heard_.begin(), heard_.end());
  if (now - *oldest <= deadline_) return std::nullopt;
  return Silent{static_cast<int>(oldest - heard_.begin()),
                std::chrono::duration<double>(now - *oldest).count()};
}

}  // namespace coxswain::comm
