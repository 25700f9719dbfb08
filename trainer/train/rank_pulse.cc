#include "trainer/train/rank_pulse.h"

#include <unistd.h>

#include <fstream>

namespace coxswain::train {

namespace {

constexpr std::chrono::seconds kBetweenPulses{1};
constexpr double kMiB = 1 << 20;

}  // namespace

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  file >> size >> resident;
  return file ? resident * sysconf(_SC_PAGESIZE) : 0;
}

backend::RankFigures RankPulse::take(std::int64_t step, std::int64_t samples,
                                     double seconds_in_data) {
  if (step % place_.size != place_.rank) return {};
  const Clock::time_point now = now_();
  if (now - told_ < kBetweenPulses) return {};
  const backend::RankFigures figures{.rank = place_.rank,
                                     .seconds = std::chrono::duration<double>(now - told_).count(),
                                     .samples = static_cast<double>(samples - samples_told_),
                                     .seconds_in_data = seconds_in_data - data_told_,
                                     .memory_mib = static_cast<double>(memory_()) / kMiB};
  told_ = now;
  samples_told_ = samples;
  data_told_ = seconds_in_data;
  return figures;
}

}  // namespace coxswain::train
