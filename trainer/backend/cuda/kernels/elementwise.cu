#include "trainer/backend/cuda/kernels/launch.h"

namespace coxswain::backend::cuda {

namespace {

__global__ void fill_kernel(float* out, float value, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) out[i] = value;
}

__global__ void add_kernel(float* into, const float* from, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) into[i] += from[i];
}

__global__ void activate_kernel(Activation activation, const float* x, float* y,
                                std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride())
    y[i] = activated(activation, x[i]);
}

__global__ void activate_backward_kernel(Activation activation, const float* y, const float* d_y,
                                         float* d_x, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride())
    d_x[i] = d_y[i] * derivative_at_output(activation, y[i]);
}

constexpr double kRootOfTwo = 1.41421356237309504880;
constexpr double kRootOfTwoPi = 2.50662827463100050242;

__global__ void gelu_kernel(const float* x, float* y, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const double value = x[i];
    y[i] = static_cast<float>(value * 0.5 * (1 + erf(value / kRootOfTwo)));
  }
}

__global__ void gelu_backward_kernel(const float* x, const float* d_y, float* d_x,
                                     std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const double value = x[i];
    const double below = 0.5 * (1 + erf(value / kRootOfTwo));
    const double density = exp(-value * value / 2) / kRootOfTwoPi;
    d_x[i] = static_cast<float>(d_y[i] * (below + value * density));
  }
}

__device__ double sigmoid(double value) { return 1 / (1 + exp(-value)); }

__device__ float curved(const Curve& f, float x) {
  const double value = x;
  switch (f.op) {
    case graph::Op::kSilu:
      return static_cast<float>(value * sigmoid(value));
    case graph::Op::kHardSwish: {
      const double shifted = value + 3;
      const double share = shifted < 0 ? 0 : 6 < shifted ? 6 : shifted;
      return static_cast<float>(value * share / 6);
    }
    case graph::Op::kHardSigmoid: {
      const double shifted = value + 3;
      return static_cast<float>((shifted < 0 ? 0 : 6 < shifted ? 6 : shifted) / 6);
    }
    case graph::Op::kClip:
      return x < f.low ? f.low : f.high < x ? f.high : x;  // NaN stays NaN
    default:
      return static_cast<float>(sigmoid(value));
  }
}

__device__ float curved_gradient(const Curve& f, float given, float d_y) {
  const double value = given;
  switch (f.op) {
    case graph::Op::kSilu: {
      const double share = sigmoid(value);
      return static_cast<float>(d_y * share * (1 + value * (1 - share)));
    }
    case graph::Op::kHardSwish: {
      const double slope = value <= -3 ? 0 : value >= 3 ? 1 : value / 3 + 0.5;
      return static_cast<float>(d_y * slope);
    }
    case graph::Op::kHardSigmoid:
      return static_cast<float>(value > -3 && value < 3 ? static_cast<double>(d_y) / 6 : 0);
    case graph::Op::kClip:
      return given > f.low && given < f.high ? d_y : 0;
    default:
      return static_cast<float>(d_y * value * (1 - value));
  }
}

__global__ void curve_kernel(Curve f, const float* x, float* y, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) y[i] = curved(f, x[i]);
}

__global__ void curve_backward_kernel(Curve f, const float* given, const float* d_y, float* d_x,
                                      std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride())
    d_x[i] = curved_gradient(f, given[i], d_y[i]);
}

__global__ void add_bias_kernel(float* y, const float* bias, Activation activation,
                                std::int64_t count, std::int64_t channels) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const float value = bias == nullptr ? y[i] : y[i] + bias[i % channels];
    y[i] = activated(activation, value);
  }
}

__global__ void join_kernel(Parts parts, Activation activation, const float* y, float* out,
                            std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    float sum = parts.from[0][i];
    for (int part = 1; part < parts.count; ++part) sum += parts.from[part][i];
    out[i] =
        y == nullptr ? activated(activation, sum) : sum * derivative_at_output(activation, y[i]);
  }
}

__global__ void multiply_kernel(Factors by, const float* a, const float* b, float* y,
                                std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const std::int64_t sample = i / (by.pixels * by.channels);
    const std::int64_t factor = sample * by.channels + i % by.channels;
    y[i] = a[i] * b[by.of_pixels ? i : factor];
  }
}

__global__ void sum_products_kernel(Factors by, const float* a, const float* b, float* out,
                                    std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const std::int64_t first = i / by.channels * by.pixels * by.channels;
    double sum = 0;
    for (std::int64_t pixel = 0; pixel < by.pixels; ++pixel) {
      const std::int64_t at = first + pixel * by.channels + i % by.channels;
      sum += static_cast<double>(a[at]) * b[at];
    }
    out[i] = static_cast<float>(sum);
  }
}

__global__ void add_in_order_kernel(Additions additions, float* first, std::int64_t stride,
                                    std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    for (int a = 0; a < additions.count; ++a) {
      const Additions::Pair& pair = additions.pairs[a];
      first[pair.into * stride + i] += first[pair.from * stride + i];
    }
  }
}

}  // namespace

void fill(const Queue& queue, float* out, float value, std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, fill_kernel, out, value, count), "starting the kernel fill");
}

void add_into(const Queue& queue, float* into, const float* from, std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, add_kernel, into, from, count), "starting the kernel add");
}

void activate(const Queue& queue, Activation activation, const float* x, float* y,
              std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, activate_kernel, activation, x, y, count),
        "starting the kernel activate");
}

void activate_backward(const Queue& queue, Activation activation, const float* y, const float* d_y,
                       float* d_x, std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, activate_backward_kernel, activation, y, d_y, d_x, count),
        "starting the kernel activate_backward");
}

void gelu(const Queue& queue, const float* x, float* y, std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, gelu_kernel, x, y, count), "starting the kernel gelu");
}

void gelu_backward(const Queue& queue, const float* x, const float* d_y, float* d_x,
                   std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, gelu_backward_kernel, x, d_y, d_x, count),
        "starting the kernel gelu_backward");
}

void curve(const Queue& queue, const Curve& f, const float* x, float* y, std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, curve_kernel, f, x, y, count), "starting the kernel curve");
}

void curve_backward(const Queue& queue, const Curve& f, const float* given, const float* d_y,
                    float* d_x, std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, curve_backward_kernel, f, given, d_y, d_x, count),
        "starting the kernel curve_backward");
}

void add_bias(const Queue& queue, float* y, const float* bias, Activation activation,
              std::int64_t rows, std::int64_t channels) {
  const cudaLaunchConfig_t config = loop_over(queue, rows * channels);
  check(
      cudaLaunchKernelEx(&config, add_bias_kernel, y, bias, activation, rows * channels, channels),
      "starting the kernel add_bias");
}

void join(const Queue& queue, const Parts& parts, Activation activation, const float* y, float* out,
          std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, join_kernel, parts, activation, y, out, count),
        "starting the kernel join");
}

void multiply(const Queue& queue, const Factors& by, const float* a, const float* b, float* y,
              std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, multiply_kernel, by, a, b, y, count),
        "starting the kernel multiply");
}

void sum_products(const Queue& queue, const Factors& by, const float* a, const float* b,
                  float* out, std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, sum_products_kernel, by, a, b, out, count),
        "starting the kernel sum_products");
}

void add_in_order(const Queue& queue, const Additions& additions, float* first, std::int64_t stride,
                  std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, add_in_order_kernel, additions, first, stride, count),
        "starting the kernel add_in_order");
}

}  // namespace coxswain::backend::cuda
