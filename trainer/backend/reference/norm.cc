#include <cmath>

#include "trainer/backend/reference/kernels.h"

namespace coxswain::backend::reference {

namespace {

// Calls visit(element index) for every element of channel c.
template <typename Visit>
void for_each_in_channel(const Shape& shape, std::int64_t c, const Visit& visit) {
  const std::int64_t plane = shape.h * shape.w;
  for (std::int64_t n = 0; n < shape.n; ++n) {
    const std::int64_t first = (n * shape.c + c) * plane;
    for (std::int64_t i = first; i < first + plane; ++i) visit(static_cast<std::size_t>(i));
  }
}

double inverse_deviation(const BatchNorm& norm, std::size_t c) {
  return 1 / std::sqrt(norm.moments.variance[c] + static_cast<double>(norm.epsilon));
}

double gamma_of(const BatchNorm& norm, std::size_t c) {
  return norm.gamma.empty() ? 1.0 : static_cast<double>(norm.gamma[c]);
}

}  // namespace

void batch_moments(const Shape& shape, In x, Moments moments) {
  const double count = static_cast<double>(shape.n * shape.h * shape.w);
  for (std::int64_t channel = 0; channel < shape.c; ++channel) {
    const auto c = static_cast<std::size_t>(channel);
    double sum = 0;
    for_each_in_channel(shape, channel, [&](std::size_t i) { sum += x[i]; });
    const double mean = sum / count;
    double squares = 0;
    for_each_in_channel(shape, channel,
                        [&](std::size_t i) { squares += (x[i] - mean) * (x[i] - mean); });
    moments.mean[c] = mean;
    moments.variance[c] = squares / count;
  }
}

double unbiased(double variance, std::int64_t count) {
  if (count < 2) return variance;
  return variance * static_cast<double>(count) / static_cast<double>(count - 1);
}

void batch_norm_forward(const BatchNorm& norm, In x, In beta, Out y) {
  for (std::int64_t channel = 0; channel < norm.shape.c; ++channel) {
    const auto c = static_cast<std::size_t>(channel);
    const double scale = inverse_deviation(norm, c) * gamma_of(norm, c);
    for_each_in_channel(norm.shape, channel, [&](std::size_t i) {
      y[i] = static_cast<float>((x[i] - norm.moments.mean[c]) * scale + beta[c]);
    });
  }
  activate(norm.activation, y);
}

// Ioffe & Szegedy 2015, section 3: mean and variance depend on x, which gives the two subtracted
// terms.
void batch_norm_backward(const BatchNorm& norm, In x, In y, In d_y, Out d_gamma, Out d_beta,
                         Out d_x) {
  const double count = static_cast<double>(norm.shape.n * norm.shape.h * norm.shape.w);
  const auto gradient = [&](std::size_t i) -> double {
    if (norm.activation == Activation::kNone) return d_y[i];
    return d_y[i] * static_cast<double>(derivative_at_output(norm.activation, y[i]));
  };
  for (std::int64_t channel = 0; channel < norm.shape.c; ++channel) {
    const auto c = static_cast<std::size_t>(channel);
    const double inverse = inverse_deviation(norm, c);
    const auto normalised = [&](std::size_t i) { return (x[i] - norm.moments.mean[c]) * inverse; };
    double beta_sum = 0;
    double gamma_sum = 0;
    for_each_in_channel(norm.shape, channel, [&](std::size_t i) {
      beta_sum += gradient(i);
      gamma_sum += gradient(i) * normalised(i);
    });
    d_beta[c] = static_cast<float>(beta_sum);
    if (!d_gamma.empty()) d_gamma[c] = static_cast<float>(gamma_sum);
    if (d_x.empty()) continue;
    const double scale = gamma_of(norm, c) * inverse;
    for_each_in_channel(norm.shape, channel, [&](std::size_t i) {
      const double centred = gradient(i) - beta_sum / count - normalised(i) * gamma_sum / count;
      d_x[i] = static_cast<float>(scale * centred);
    });
  }
}

}  // namespace coxswain::backend::reference
