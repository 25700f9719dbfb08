#include <algorithm>
#include <vector>

#include "trainer/backend/reference/operations.h"
#include "trainer/backend/reference/sums.h"

namespace coxswain::backend::reference {

namespace {

// x (rows, in), weight (out, in), bias (out), y (rows, out).
void forward(const Work& w) {
  const std::int64_t rows = w.in.n;
  const std::int64_t in = w.in.per_sample();
  const std::int64_t out = w.node.channels;
  const In x = w.x();
  const In weight = w.values("weight");
  const In bias = w.values("bias");
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t k = 0; k < out; ++k) {
      const double start =
          bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<std::size_t>(k)]);
      const double sum = start + dot(x.data() + n * in, weight.data() + k * in, in, 1);
      w.out[static_cast<std::size_t>(n * out + k)] = static_cast<float>(sum);
    }
  }
}

void backward_weights(const Work& w) {
  const std::int64_t rows = w.in.n;
  const std::int64_t in = w.in.per_sample();
  const std::int64_t out = w.node.channels;
  const In x = w.x();
  const Out d_weight = w.gradients("weight");
  const Out d_bias = w.gradients("bias");
  std::vector<double> sums(static_cast<std::size_t>(in));
  for (std::int64_t k = 0; k < out; ++k) {
    std::fill(sums.begin(), sums.end(), 0.0);
    double bias_sum = 0;
    for (std::int64_t n = 0; n < rows; ++n) {
      const float gradient = w.d_y[static_cast<std::size_t>(n * out + k)];
      bias_sum += gradient;
      add_scaled(sums.data(), gradient, x.data() + n * in, in, 1);
    }
    if (!d_bias.empty()) d_bias[static_cast<std::size_t>(k)] = static_cast<float>(bias_sum);
    std::transform(sums.begin(), sums.end(), d_weight.data() + k * in,
                   [](double sum) { return static_cast<float>(sum); });
  }
}

void backward_data(const Work& w) {
  const std::int64_t rows = w.in.n;
  const std::int64_t in = w.in.per_sample();
  const std::int64_t out = w.node.channels;
  const In weight = w.values("weight");
  std::vector<double> sums(static_cast<std::size_t>(in));
  for (std::int64_t n = 0; n < rows; ++n) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::int64_t k = 0; k < out; ++k) {
      add_scaled(sums.data(), w.d_y[static_cast<std::size_t>(n * out + k)], weight.data() + k * in,
                 in, 1);
    }
    std::transform(sums.begin(), sums.end(), w.out.data() + n * in,
                   [](double sum) { return static_cast<float>(sum); });
  }
}

}  // namespace

const Loops kDense{.forward = forward,
                   .backward_data = backward_data,
                   .backward_weights = backward_weights};

}  // namespace coxswain::backend::reference
