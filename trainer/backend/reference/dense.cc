#include <algorithm>
#include <vector>

#include "trainer/backend/reference/kernels.h"
#include "trainer/backend/reference/sums.h"

namespace coxswain::backend::reference {

void dense_forward(std::int64_t rows, In x, In weight, In bias, Out y) {
  const std::int64_t in = static_cast<std::int64_t>(x.size()) / rows;
  const std::int64_t out = static_cast<std::int64_t>(y.size()) / rows;
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t k = 0; k < out; ++k) {
      const double start =
          bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<std::size_t>(k)]);
      const double sum = start + dot(x.data() + n * in, weight.data() + k * in, in, 1);
      y[static_cast<std::size_t>(n * out + k)] = static_cast<float>(sum);
    }
  }
}

void dense_backward_weights(std::int64_t rows, In x, In d_y, Out d_weight, Out d_bias) {
  const std::int64_t in = static_cast<std::int64_t>(x.size()) / rows;
  const std::int64_t out = static_cast<std::int64_t>(d_y.size()) / rows;
  std::vector<double> sums(static_cast<std::size_t>(in));
  for (std::int64_t k = 0; k < out; ++k) {
    std::fill(sums.begin(), sums.end(), 0.0);
    double bias_sum = 0;
    for (std::int64_t n = 0; n < rows; ++n) {
      const float gradient = d_y[static_cast<std::size_t>(n * out + k)];
      bias_sum += gradient;
      add_scaled(sums.data(), gradient, x.data() + n * in, in, 1);
    }
    if (!d_bias.empty()) d_bias[static_cast<std::size_t>(k)] = static_cast<float>(bias_sum);
    std::transform(sums.begin(), sums.end(), d_weight.data() + k * in,
                   [](double sum) { return static_cast<float>(sum); });
  }
}

void dense_backward_data(std::int64_t rows, In weight, In d_y, Out d_x) {
  const std::int64_t in = static_cast<std::int64_t>(d_x.size()) / rows;
  const std::int64_t out = static_cast<std::int64_t>(d_y.size()) / rows;
  std::vector<double> sums(static_cast<std::size_t>(in));
  for (std::int64_t n = 0; n < rows; ++n) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::int64_t k = 0; k < out; ++k) {
      add_scaled(sums.data(), d_y[static_cast<std::size_t>(n * out + k)], weight.data() + k * in,
                 in, 1);
    }
    std::transform(sums.begin(), sums.end(), d_x.data() + n * in,
                   [](double sum) { return static_cast<float>(sum); });
  }
}

}  // namespace coxswain::backend::reference
