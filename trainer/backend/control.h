#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "trainer/backend/executable.h"
#include "trainer/backend/parameters.h"

namespace coxswain::backend {

// The control segment. In the gradients it is what every step sums over all ranks beside them: the
// training loop writes what a rank has to say before a pass, Executable::write_sums adds what the
// pass gave, Backend::update what it decided. In the weights it counts the updates, where they are
// made.

// Value. What one rank tells of itself. One speaks in a step, the others' are zeros: so the sums
// are its words.
struct RankFigures {
  int rank = -1;               // -1: nobody spoke
  double seconds = 0;          // since it spoke last; all below in that time
  double samples = 0;          // that it computed
  double seconds_in_data = 0;  // in which it waited for them
  double seconds_waiting = 0;  // and for sums
  double memory_mib = 0;       // resident
  bool operator==(const RankFigures&) const = default;
};

// Value. The control segment after the sums of a step. Every rank acts on the same sums after the
// same step: there is no other collective for stop or metrics.
struct ControlSums {
  double stop_requests = 0;
  double seconds_waiting = 0;  // for the sums of the step before
  double samples = 0;
  double loss = 0;
  double correct = 0;
  double not_finite = 0;      // micro-batches whose loss is not finite
  bool updated = false;       // else the step was skipped
  bool save = false;          // rank 0 wants a snapshot after it, of all ranks
  bool push_exactly = false;  // rank 0 wants no codec for the pushes of later steps
  RankFigures figures = {};   // of the rank that spoke
  double correct_top5 = 0;
};

using ControlFloats = std::array<float, tensor::kControlFloats>;
constexpr std::size_t kNotFinite = 5;
constexpr std::size_t kUpdated = 6;
constexpr std::size_t kSave = 7;
constexpr std::size_t kPushExactly = 8;
constexpr std::size_t kFigures = 9;  // six floats: the rank from 1 on, and its words
constexpr std::size_t kCorrectTop5 = 15;

// What a rank says in a pass.
inline ControlFloats to_control(bool stop, double seconds_waiting, bool save = false,
                                bool push_exactly = false, const RankFigures& figures = {}) {
  ControlFloats control = {stop ? 1.0F : 0.0F, static_cast<float>(seconds_waiting)};
  control[kSave] = save ? 1.0F : 0.0F;
  control[kPushExactly] = push_exactly ? 1.0F : 0.0F;
  const std::array said{figures.rank + 1.0,      figures.seconds,         figures.samples,
                        figures.seconds_in_data, figures.seconds_waiting, figures.memory_mib};
  for (std::size_t i = 0; i < said.size(); ++i) control[kFigures + i] = static_cast<float>(said[i]);
  return control;
}

inline void write_sums(const LossSums& sums, std::span<float> control) {
  const bool finite = std::isfinite(sums.loss);
  control[2] = static_cast<float>(sums.samples);
  control[3] = finite ? static_cast<float>(sums.loss) : 0.0F;
  control[4] = static_cast<float>(sums.correct);
  control[kNotFinite] = finite ? 0.0F : 1.0F;
  control[kCorrectTop5] = static_cast<float>(sums.correct_top5);
}

inline ControlSums read_control(std::span<const float> control) {
  return {control[0],
          control[1],
          control[2],
          control[3],
          control[4],
          control[kNotFinite],
          control[kUpdated] > 0,
          control[kSave] > 0,
          control[kPushExactly] > 0,
          {static_cast<int>(control[kFigures]) - 1, control[kFigures + 1], control[kFigures + 2],
           control[kFigures + 3], control[kFigures + 4], control[kFigures + 5]},
          control[kCorrectTop5]};
}

// The bits of the count, in the first two floats.
inline std::array<float, 2> to_floats(std::int64_t update_count) {
  return std::bit_cast<std::array<float, 2>>(update_count);
}

inline void write_update_count(std::int64_t count, const Parameters& parameters) {
  const auto bits = to_floats(count);
  const tensor::Slice control = parameters.weights(parameters.layout().control());
  parameters.memory().write(bits, control.range(0, bits.size()));
}

inline std::int64_t read_update_count(std::span<const float> control) {
  return std::bit_cast<std::int64_t>(std::array{control[0], control[1]});
}

}  // namespace coxswain::backend
