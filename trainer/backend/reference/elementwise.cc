#include <algorithm>
#include <cmath>
#include <numbers>

#include "trainer/backend/reference/kernels.h"
#include "trainer/tensor/philox.h"

namespace coxswain::backend::reference {

void activate(Activation activation, Out values) {
  if (activation == Activation::kRelu) {
    for (float& value : values) value = value < 0 ? 0 : value;  // NaN stays NaN
  } else if (activation == Activation::kTanh) {
    for (float& value : values) value = static_cast<float>(std::tanh(static_cast<double>(value)));
  }
}

float derivative_at_output(Activation activation, float y) {
  switch (activation) {
    case Activation::kNone:
      return 1;
    case Activation::kRelu:
      return y > 0 ? 1.0F : 0.0F;
    case Activation::kTanh:
      return 1 - y * y;
  }
  return 1;
}

void multiply_by_derivative(Activation activation, In y, Out d_y) {
  for (std::size_t i = 0; i < d_y.size(); ++i) d_y[i] *= derivative_at_output(activation, y[i]);
}

void gelu_forward(In x, Out y) {
  std::ranges::transform(x, y.begin(), [](double value) {
    return static_cast<float>(value * 0.5 * (1 + std::erf(value / std::numbers::sqrt2)));
  });
}

void gelu_backward(In x, In d_y, Out d_x) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = x[i];
    const double below = 0.5 * (1 + std::erf(value / std::numbers::sqrt2));
    const double density = std::exp(-value * value / 2) / std::sqrt(2 * std::numbers::pi);
    d_x[i] = static_cast<float>(d_y[i] * (below + value * density));
  }
}

void dropout(const Dropout& dropout, const Batch& batch, In x, Out y) {
  const float scale = 1 / (1 - dropout.rate);
  const auto epoch = static_cast<std::uint32_t>(batch.epoch);
  for (std::size_t n = 0; n < batch.sample_ids.size(); ++n) {
    const auto sample = static_cast<std::uint32_t>(batch.sample_ids[n]);
    const std::size_t first = n * static_cast<std::size_t>(dropout.per_sample);
    std::array<std::uint32_t, 4> words{};
    for (std::int64_t i = 0; i < dropout.per_sample; ++i) {
      if (i % 4 == 0) {
        const auto index = static_cast<std::uint32_t>(i / 4);
        words = tensor::philox(batch.seed, {sample, epoch, dropout.stream, index});
      }
      const bool kept = tensor::to_uniform(words[static_cast<std::size_t>(i % 4)]) >= dropout.rate;
      const std::size_t at = first + static_cast<std::size_t>(i);
      y[at] = kept ? x[at] * scale : 0;
    }
  }
}

}  // namespace coxswain::backend::reference
