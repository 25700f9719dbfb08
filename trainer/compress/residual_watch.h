#pragma once

namespace coxswain::compress {

// Value. Whether what pushes leave out is sent later, as it should be, or keeps piling up: the
// steps that are made are then of gradients that were true long ago.
class ResidualWatch {
 public:
  static constexpr int kEverySteps = 8;

  // Norms of a step's residuals and gradients, at every look. True, once: the residuals have grown
  // at many looks in a row, and are many times the gradients.
  bool piles_up(double residual_norm, double gradient_norm);

 private:
  double last_ = 0;
  int grown_in_a_row_ = 0;
  bool was_told_ = false;
};

}  // namespace coxswain::compress
