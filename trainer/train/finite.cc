#include "trainer/train/finite.h"

#include <fmt/format.h>

#include <cmath>

#include "trainer/contract/error.h"

namespace coxswain::train {

void require_few_skipped(std::int64_t in_a_row, std::int64_t most, std::int64_t step) {
  if (in_a_row <= most) return;
  throw Error(
      ExitCode::kNotFinite,
      fmt::format("[train] loss or gradients were not finite in {} steps in a row up to step {}: "
                  "lower optimizer.lr, add warm-up, or raise nonFinite.skip",
                  in_a_row, step));
}

void require_finite_end(const checkpoint::State& state, const std::optional<Scores>& scores) {
  const bool scored = scores.has_value() && !std::isfinite(scores->loss);
  if (!scored && state.skipped_in_a_row == 0) return;
  throw Error(ExitCode::kNotFinite,
              fmt::format("[train] the run ended after step {} with {} that is not finite: lower "
                          "optimizer.lr, or add warm-up",
                          state.step, scored ? "a test loss" : "a training loss or gradient"));
}

}  // namespace coxswain::train
