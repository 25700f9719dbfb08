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

// Calls visit(element of the whole, element of the part, count) for the channels that a part of a
// Concat has in it, sample by sample.
template <typename Visit>
void for_each_slice(const Work& w, std::int64_t first_channel, std::size_t part_size,
                    const Visit& visit) {
  const std::int64_t rows = w.node.shape.n;
  const std::int64_t per_sample = w.node.shape.per_sample();
  const std::int64_t first = first_channel * w.node.shape.h * w.node.shape.w;
  const std::int64_t count = static_cast<std::int64_t>(part_size) / rows;
  for (std::int64_t n = 0; n < rows; ++n) visit(n * per_sample + first, n * count, count);
}

void concat_forward(const Work& w) {
  std::int64_t channel = 0;
  for (const In part : w.inputs) {
    for_each_slice(w, channel, part.size(), [&](auto whole, auto from, auto count) {
      std::copy_n(part.data() + from, count, w.out.data() + whole);
    });
    const std::int64_t per_channel = w.node.shape.n * w.node.shape.h * w.node.shape.w;
    channel += static_cast<std::int64_t>(part.size()) / per_channel;
  }
}

void concat_backward(const Work& w) {
  for_each_slice(w, w.first_channel, w.out.size(), [&](auto whole, auto to, auto count) {
    std::copy_n(w.d_y.data() + whole, count, w.out.data() + to);
  });
}

// `factors`: as many as there are values, or one for each plane of rows and columns.
void multiply(In values, In factors, Out products) {
  const std::size_t plane = values.size() / factors.size();
  for (std::size_t i = 0; i < values.size(); ++i) products[i] = values[i] * factors[i / plane];
}

void multiply_forward(const Work& w) { multiply(w.inputs[0], w.inputs[1], w.out); }

// Of the one input by the other.
void multiply_backward(const Work& w) {
  const In other = w.inputs[0];
  if (w.out.size() == w.d_y.size()) return multiply(w.d_y, other, w.out);
  const std::size_t plane = w.d_y.size() / w.out.size();
  for (std::size_t i = 0; i < w.out.size(); ++i) {
    double sum = 0;
    for (std::size_t at = i * plane; at < (i + 1) * plane; ++at)
      sum += static_cast<double>(w.d_y[at]) * other[at];
    w.out[i] = static_cast<float>(sum);
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

double sigmoid(double value) { return 1 / (1 + std::exp(-value)); }

void sigmoid_forward(const Work& w) {
  std::ranges::transform(w.x(), w.out.begin(),
                         [](double value) { return static_cast<float>(sigmoid(value)); });
}

void sigmoid_backward(const Work& w) {
  std::ranges::transform(w.d_y, w.y, w.out.begin(), [](double d_y, double y) {
    return static_cast<float>(d_y * y * (1 - y));
  });
}

void silu_forward(const Work& w) {
  std::ranges::transform(w.x(), w.out.begin(),
                         [](double value) { return static_cast<float>(value * sigmoid(value)); });
}

void silu_backward(const Work& w) {
  std::ranges::transform(w.d_y, w.x(), w.out.begin(), [](double d_y, double value) {
    const double share = sigmoid(value);
    return static_cast<float>(d_y * share * (1 + value * (1 - share)));
  });
}

void hard_swish_forward(const Work& w) {
  std::ranges::transform(w.x(), w.out.begin(), [](double value) {
    return static_cast<float>(value * std::clamp(value + 3, 0.0, 6.0) / 6);
  });
}

void hard_swish_backward(const Work& w) {
  std::ranges::transform(w.d_y, w.x(), w.out.begin(), [](double d_y, double value) {
    const double slope = value <= -3 ? 0 : value >= 3 ? 1 : value / 3 + 0.5;
    return static_cast<float>(d_y * slope);
  });
}

void hard_sigmoid_forward(const Work& w) {
  std::ranges::transform(w.x(), w.out.begin(), [](double value) {
    return static_cast<float>(std::clamp(value + 3, 0.0, 6.0) / 6);
  });
}

void hard_sigmoid_backward(const Work& w) {
  std::ranges::transform(w.d_y, w.x(), w.out.begin(), [](double d_y, double value) {
    return static_cast<float>(value > -3 && value < 3 ? d_y / 6 : 0);
  });
}

void clip_forward(const Work& w) {
  std::ranges::transform(w.x(), w.out.begin(), [&](float value) {
    return std::clamp(value, w.node.low, w.node.high);  // NaN stays NaN
  });
}

// At both ends none, as Relu's at 0.
void clip_backward(const Work& w) {
  std::ranges::transform(w.d_y, w.y, w.out.begin(), [&](float d_y, float y) {
    return y > w.node.low && y < w.node.high ? d_y : 0;
  });
}

}  // namespace

const Loops kRelu{.forward = activation_forward<Activation::kRelu>,
                  .backward_data = activation_backward<Activation::kRelu>};
const Loops kTanh{.forward = activation_forward<Activation::kTanh>,
                  .backward_data = activation_backward<Activation::kTanh>};
const Loops kGelu{.forward = gelu_forward, .backward_data = gelu_backward};
const Loops kSigmoid{.forward = sigmoid_forward, .backward_data = sigmoid_backward};
const Loops kSilu{.forward = silu_forward, .backward_data = silu_backward};
const Loops kHardSwish{.forward = hard_swish_forward, .backward_data = hard_swish_backward};
const Loops kHardSigmoid{.forward = hard_sigmoid_forward, .backward_data = hard_sigmoid_backward};
const Loops kClip{.forward = clip_forward, .backward_data = clip_backward};
const Loops kAdd{.forward = sum_forward};
const Loops kMultiply{.forward = multiply_forward, .backward_data = multiply_backward};
const Loops kConcat{.forward = concat_forward, .backward_data = concat_backward};
const Loops kFlatten{.forward = sum_forward, .backward_data = copy_backward};

}  // namespace coxswain::backend::reference
