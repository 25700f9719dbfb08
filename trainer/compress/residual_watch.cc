#include "trainer/compress/residual_watch.h"

#include <utility>

namespace coxswain::compress {

namespace {

constexpr int kManyLooks = 8;
constexpr double kManyGradients = 20;

}  // namespace

bool ResidualWatch::piles_up(double residual_norm, double gradient_norm) {
  const bool has_grown = residual_norm > std::exchange(last_, residual_norm);
  grown_in_a_row_ = has_grown ? grown_in_a_row_ + 1 : 0;
  const bool piles =
      grown_in_a_row_ >= kManyLooks && residual_norm > kManyGradients * gradient_norm;
  return piles && !std::exchange(was_told_, true);
}

}  // namespace coxswain::compress
