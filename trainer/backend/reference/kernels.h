#pragma once

#include <cstdint>
#include <span>

#include "trainer/backend/executable.h"
#include "trainer/graph/graph.h"

// The definition of every operation as plain loops over canonical fp32 data. Activations are (N, C,
// H, W). Outputs come last; they are overwritten. An empty `bias`, `gamma` or gradient span means
// "has none".
namespace coxswain::backend::reference {

using graph::Activation;
using tensor::Shape;

using In = std::span<const float>;
using Out = std::span<float>;

// Value. A square window moved over an image.
struct Window {
  Shape in;
  Shape out;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t pad = 0;
};

// Value. The outputs along one axis whose input lies inside the image for one cell of the window:
// output o in [first, last) reads input o * stride + cell - pad.
struct Reach {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
Reach reach(const Window& window, std::int64_t cell, std::int64_t in_size, std::int64_t out_size);

// weight (K, C, R, S), bias (K).
void convolution_forward(const Window& window, In x, In weight, In bias, Out y);
void convolution_backward_weights(const Window& window, In x, In d_y, Out d_weight, Out d_bias);
void convolution_backward_data(const Window& window, In weight, In d_y, Out d_x);

// x (rows, in), weight (out, in), bias (out), y (rows, out).
void dense_forward(std::int64_t rows, In x, In weight, In bias, Out y);
void dense_backward_weights(std::int64_t rows, In x, In d_y, Out d_weight, Out d_bias);
void dense_backward_data(std::int64_t rows, In weight, In d_y, Out d_x);

// One channel each: the values with which x is normalised.
struct Moments {
  std::span<double> mean;
  std::span<double> variance;  // biased
};
void batch_moments(const Shape& shape, In x, Moments moments);
// The variance with divisor count - 1 that running averages take; 0 for a count of 1.
double unbiased(double variance, std::int64_t count);

struct BatchNorm {
  Shape shape;
  float epsilon = 0;
  Activation activation = Activation::kNone;
  Moments moments;
  In gamma;
};
// y = activation((x - mean) / sqrt(variance + epsilon) * gamma + beta)
void batch_norm_forward(const BatchNorm& norm, In x, In beta, Out y);
// `y` is read where there is an activation. `d_x` may be empty.
void batch_norm_backward(const BatchNorm& norm, In x, In y, In d_y, Out d_gamma, Out d_beta,
                         Out d_x);

// Padding never wins a maximum; of equal values the first counts; a NaN wins.
void max_pool_forward(const Window& window, In x, Out y);
void max_pool_backward(const Window& window, In x, In d_y, Out d_x);
// The mean over the cells that lie inside.
void avg_pool_forward(const Window& window, In x, Out y);
void avg_pool_backward(const Window& window, In d_y, Out d_x);
void global_avg_pool_forward(const Shape& in, In x, Out y);
void global_avg_pool_backward(const Shape& in, In d_y, Out d_x);

void activate(Activation activation, Out values);
// The derivative at the input that gave output y.
float derivative_at_output(Activation activation, float y);
void multiply_by_derivative(Activation activation, In y, Out d_y);

// Exact, with erf: x * (1 + erf(x / sqrt(2))) / 2.
void gelu_forward(In x, Out y);
void gelu_backward(In x, In d_y, Out d_x);

// Keeps an element with probability 1 - rate and scales it by 1 / (1 - rate), zeroes it otherwise.
// The draw depends on seed, sample id, epoch, `stream` and the element's index in its sample, so
// forward and backward draw the same. y may be x.
struct Dropout {
  std::uint32_t stream = 0;
  float rate = 0;
  std::int64_t per_sample = 0;
};
void dropout(const Dropout& dropout, const Batch& batch, In x, Out y);

}  // namespace coxswain::backend::reference
