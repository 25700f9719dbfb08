#include <algorithm>
#include <cmath>

#include "trainer/backend/joined_moments.h"
#include "trainer/backend/reference/operations.h"

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

// One channel each: the values with which x is normalised, kept for backward, since the statistics
// in the buffer are being summed over all ranks by then.
struct Moments {
  std::span<double> mean;
  std::span<double> variance;  // biased
  double& count;               // values of a channel
};

Moments moments_of(const Work& w) {
  const auto channels = static_cast<std::size_t>(w.node.shape.c);
  w.kept->resize(2 * channels + 1);
  const std::span<double> all(*w.kept);
  return {all.first(channels), all.subspan(channels, channels), all.back()};
}

std::vector<float> as_floats(std::span<const double> values) {
  return {values.begin(), values.end()};
}

// Of the rows of all ranks, from those of this one.
void join_moments(const Work& w, const Moments& moments) {
  const Shape& shape = w.node.shape;
  JoinedMoments joined(shape.c);
  joined.join(w.batch->ranks, shape.n, as_floats(moments.mean), as_floats(moments.variance));
  std::ranges::copy(joined.mean(), moments.mean.begin());
  std::ranges::copy(joined.variance(), moments.variance.begin());
  moments.count = static_cast<double>(joined.rows() * shape.h * shape.w);
}

void batch_moments(const Shape& shape, In x, const Moments& moments) {
  const double count = moments.count = static_cast<double>(shape.n * shape.h * shape.w);
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

// The variance with divisor count - 1 that running averages take; 0 for a count of 1.
double unbiased(double variance, double count) {
  return count < 2 ? variance : variance * count / (count - 1);
}

void take_moments(const Work& w, const Moments& moments) {
  if (!w.training) {
    std::ranges::copy(w.values("running_mean"), moments.mean.begin());
    std::ranges::copy(w.values("running_var"), moments.variance.begin());
    return;
  }
  batch_moments(w.node.shape, w.x(), moments);
  if (w.node.joined) join_moments(w, moments);
  for (std::size_t c = 0; c < moments.mean.size(); ++c) {
    w.gradients("running_mean")[c] = static_cast<float>(moments.mean[c]);
    w.gradients("running_var")[c] =
        static_cast<float>(unbiased(moments.variance[c], moments.count));
  }
}

double gamma_of(In gamma, std::size_t c) {
  return gamma.empty() ? 1.0 : static_cast<double>(gamma[c]);
}

double inverse_deviation(const Work& w, const Moments& moments, std::size_t c) {
  return 1 / std::sqrt(moments.variance[c] + static_cast<double>(w.node.epsilon));
}

// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta
void forward(const Work& w) {
  const Moments moments = moments_of(w);
  take_moments(w, moments);
  const In x = w.x();
  const In gamma = w.values("weight");
  const In beta = w.values("bias");
  for (std::int64_t channel = 0; channel < w.node.shape.c; ++channel) {
    const auto c = static_cast<std::size_t>(channel);
    const double scale = inverse_deviation(w, moments, c) * gamma_of(gamma, c);
    for_each_in_channel(w.node.shape, channel, [&](std::size_t i) {
      w.out[i] = static_cast<float>((x[i] - moments.mean[c]) * scale + beta[c]);
    });
  }
}

// Of one channel each, over d(y): its sum, and that of its products with what x is normalised to.
struct GradientSums {
  std::vector<double> beta;
  std::vector<double> gamma;
};

// Over all ranks.
void join_sums(const Work& w, GradientSums& sums) {
  const std::size_t channels = sums.beta.size();
  std::vector<float> own = as_floats(sums.beta);
  own.insert(own.end(), sums.gamma.begin(), sums.gamma.end());
  std::vector<double> all(own.size());
  add_gathered(w.batch->ranks, own, all);
  std::copy_n(all.begin(), channels, sums.beta.begin());
  std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(channels), channels, sums.gamma.begin());
}

// Ioffe & Szegedy 2015, section 3: mean and variance depend on x, which gives the two subtracted
// terms. d(x) only where it is wanted.
void backward(const Work& w) {
  const Shape& shape = w.node.shape;
  const Moments moments = moments_of(w);
  const In x = w.x();
  const In gamma = w.values("weight");
  const Out d_gamma = w.gradients("weight");
  const Out d_beta = w.gradients("bias");
  const auto gradient = [&](std::size_t i) -> double {
    if (w.node.activation == Activation::kNone) return w.d_y[i];
    return w.d_y[i] * static_cast<double>(derivative_at_output(w.node.activation, w.y[i]));
  };
  GradientSums sums;
  for (std::int64_t channel = 0; channel < shape.c; ++channel) {
    const auto c = static_cast<std::size_t>(channel);
    const double inverse = inverse_deviation(w, moments, c);
    double beta_sum = 0;
    double gamma_sum = 0;
    for_each_in_channel(shape, channel, [&](std::size_t i) {
      beta_sum += gradient(i);
      gamma_sum += gradient(i) * ((x[i] - moments.mean[c]) * inverse);
    });
    sums.beta.push_back(beta_sum);
    sums.gamma.push_back(gamma_sum);
    d_beta[c] = static_cast<float>(beta_sum);
    if (!d_gamma.empty()) d_gamma[c] = static_cast<float>(gamma_sum);
  }
  if (w.out.empty()) return;
  if (w.node.joined) join_sums(w, sums);
  for (std::int64_t channel = 0; channel < shape.c; ++channel) {
    const auto c = static_cast<std::size_t>(channel);
    const double inverse = inverse_deviation(w, moments, c);
    const double scale = gamma_of(gamma, c) * inverse;
    for_each_in_channel(shape, channel, [&](std::size_t i) {
      const double normalised = (x[i] - moments.mean[c]) * inverse;
      const double centred =
          gradient(i) - sums.beta[c] / moments.count - normalised * sums.gamma[c] / moments.count;
      w.out[i] = static_cast<float>(scale * centred);
    });
  }
}

}  // namespace

const Loops kBatchNorm{.forward = forward, .backward_data = backward, .backward_weights = backward};

}  // namespace coxswain::backend::reference
