#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "trainer/backend/reference/operations.h"

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

namespace {

// Add's sum, and what Flatten and the activations start from: the input as it stands.
void sum_forward(const Work& w) {
  std::ranges::copy(w.x(), w.out.begin());
  for (std::size_t i = 1; i < w.inputs.size(); ++i) {
    std::ranges::transform(w.out, w.inputs[i], w.out.begin(), std::plus<>());
  }
}

void copy_backward(const Work& w) { std::ranges::copy(w.d_y, w.out.begin()); }

template <Activation activation>
void activation_forward(const Work& w) {
  sum_forward(w);
  activate(activation, w.out);
}

template <Activation activation>
void activation_backward(const Work& w) {
  copy_backward(w);
  multiply_by_derivative(activation, w.y, w.out);
}

// Exact, with erf: x * (1 + erf(x / sqrt(2))) / 2.
void gelu_forward(const Work& w) {
  std::ranges::transform(w.x(), w.out.begin(), [](double value) {
    return static_cast<float>(value * 0.5 * (1 + std::erf(value / std::numbers::sqrt2)));
  });
}

void gelu_backward(const Work& w) {
  for (std::size_t i = 0; i < w.out.size(); ++i) {
    const double value = w.x()[i];
    const double below = 0.5 * (1 + std::erf(value / std::numbers::sqrt2));
    const double density = std::exp(-value * value / 2) / std::sqrt(2 * std::numbers::pi);
    w.out[i] = static_cast<float>(w.d_y[i] * (below + value * density));
  }
}

}  // namespace

const Loops kRelu{.forward = activation_forward<Activation::kRelu>,
                  .backward_data = activation_backward<Activation::kRelu>};
const Loops kTanh{.forward = activation_forward<Activation::kTanh>,
                  .backward_data = activation_backward<Activation::kTanh>};
const Loops kGelu{.forward = gelu_forward, .backward_data = gelu_backward};
const Loops kAdd{.forward = sum_forward};
const Loops kFlatten{.forward = sum_forward, .backward_data = copy_backward};

}  // namespace coxswain::backend::reference
