#include "trainer/backend/cuda/kernels/launch.h"

namespace coxswain::backend::cuda {

namespace {

__global__ void fill_kernel(float* out, float value, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) out[i] = value;
}

__global__ void add_kernel(float* into, const float* from, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) into[i] += from[i];
}

__global__ void scale_kernel(float* values, const float* factor, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) values[i] *= *factor;
}

__global__ void combine_kernel(float* into, float kept, const float* from, float factor,
                               std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride())
    into[i] = kept * into[i] + factor * from[i];
}

template <class T>
__global__ void activate_kernel(Activation activation, const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride())
    y[i] = activated(activation, x[i]);
}

template <class T>
__global__ void activate_backward_kernel(Activation activation, const T* y, const T* d_y, T* d_x,
                                         std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride())
    d_x[i] = d_y[i] * derivative_at_output(activation, y[i]);
}

constexpr double kRootOfTwo = 1.41421356237309504880;
constexpr double kRootOfTwoPi = 2.50662827463100050242;

template <class T>
__global__ void gelu_kernel(const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const double value = x[i];
    y[i] = static_cast<float>(value * 0.5 * (1 + erf(value / kRootOfTwo)));
  }
}

template <class T>
__global__ void gelu_backward_kernel(const T* x, const T* d_y, T* d_x, std::int64_t count) {
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

template <class T>
__global__ void curve_kernel(Curve f, const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) y[i] = curved(f, x[i]);
}

template <class T>
__global__ void curve_backward_kernel(Curve f, const T* given, const T* d_y, T* d_x,
                                      std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride())
    d_x[i] = curved_gradient(f, given[i], d_y[i]);
}

template <class T>
__global__ void add_bias_kernel(T* y, const float* bias, Activation activation, std::int64_t count,
                                std::int64_t channels) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    float value = y[i];
    if (bias != nullptr) value += bias[i % channels];
    y[i] = activated(activation, value);
  }
}

template <class T>
__global__ void join_kernel(Parts parts, Activation activation, const T* y, T* out,
                            std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    float sum = static_cast<const T*>(parts.from[0])[i];
    for (int part = 1; part < parts.count; ++part)
      sum += static_cast<const T*>(parts.from[part])[i];
    out[i] =
        y == nullptr ? activated(activation, sum) : sum * derivative_at_output(activation, y[i]);
  }
}

template <class T>
__global__ void multiply_kernel(Factors by, const T* a, const T* b, T* y, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const std::int64_t sample = i / (by.pixels * by.channels);
    const std::int64_t factor = sample * by.channels + i % by.channels;
    y[i] = a[i] * b[by.of_pixels ? i : factor];
  }
}

template <class T>
__global__ void sum_products_kernel(Factors by, const T* a, const T* b, T* out,
                                    std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const std::int64_t first = i / by.channels * by.pixels * by.channels;
    double sum = 0;
    for (std::int64_t pixel = 0; pixel < by.pixels; ++pixel) {
      const std::int64_t at = first + pixel * by.channels + i % by.channels;
      sum += static_cast<double>(a[at]) * static_cast<double>(b[at]);
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

void scale(const Queue& queue, float* values, const float* factor, std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, scale_kernel, values, factor, count),
        "starting the kernel scale");
}

void combine(const Queue& queue, float* into, float kept, const float* from, float factor,
             std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, combine_kernel, into, kept, from, factor, count),
        "starting the kernel combine");
}

void activate(const Queue& queue, Activation activation, const Array& x, const Array& y,
              std::int64_t count) {
  with_type(y.type, [&]<class T>(std::type_identity<T>) {
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, activate_kernel<T>, activation, x.as<T>(), y.as<T>(), count),
          "starting the kernel activate");
  });
}

void activate_backward(const Queue& queue, Activation activation, const Array& y, const Array& d_y,
                       const Array& d_x, std::int64_t count) {
  with_type(d_x.type, [&]<class T>(std::type_identity<T>) {
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, activate_backward_kernel<T>, activation, y.as<T>(),
                             d_y.as<T>(), d_x.as<T>(), count),
          "starting the kernel activate_backward");
  });
}

void gelu(const Queue& queue, const Array& x, const Array& y, std::int64_t count) {
  with_type(y.type, [&]<class T>(std::type_identity<T>) {
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, gelu_kernel<T>, x.as<T>(), y.as<T>(), count),
          "starting the kernel gelu");
  });
}

void gelu_backward(const Queue& queue, const Array& x, const Array& d_y, const Array& d_x,
                   std::int64_t count) {
  with_type(d_x.type, [&]<class T>(std::type_identity<T>) {
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, gelu_backward_kernel<T>, x.as<T>(), d_y.as<T>(), d_x.as<T>(),
                             count),
          "starting the kernel gelu_backward");
  });
}

void curve(const Queue& queue, const Curve& f, const Array& x, const Array& y, std::int64_t count) {
  with_type(y.type, [&]<class T>(std::type_identity<T>) {
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, curve_kernel<T>, f, x.as<T>(), y.as<T>(), count),
          "starting the kernel curve");
  });
}

void curve_backward(const Queue& queue, const Curve& f, const Array& given, const Array& d_y,
                    const Array& d_x, std::int64_t count) {
  with_type(d_x.type, [&]<class T>(std::type_identity<T>) {
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, curve_backward_kernel<T>, f, given.as<T>(), d_y.as<T>(),
                             d_x.as<T>(), count),
          "starting the kernel curve_backward");
  });
}

void add_bias(const Queue& queue, const Array& y, const float* bias, Activation activation,
              std::int64_t rows, std::int64_t channels) {
  with_type(y.type, [&]<class T>(std::type_identity<T>) {
    const cudaLaunchConfig_t config = loop_over(queue, rows * channels);
    check(cudaLaunchKernelEx(&config, add_bias_kernel<T>, y.as<T>(), bias, activation,
                             rows * channels, channels),
          "starting the kernel add_bias");
  });
}

void join(const Queue& queue, const Parts& parts, Activation activation, const Array& y,
          const Array& out, std::int64_t count) {
  with_type(out.type, [&]<class T>(std::type_identity<T>) {
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, join_kernel<T>, parts, activation, y.as<T>(), out.as<T>(),
                             count),
          "starting the kernel join");
  });
}

void multiply(const Queue& queue, const Factors& by, const Array& a, const Array& b, const Array& y,
              std::int64_t count) {
  with_type(y.type, [&]<class T>(std::type_identity<T>) {
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(
        cudaLaunchKernelEx(&config, multiply_kernel<T>, by, a.as<T>(), b.as<T>(), y.as<T>(), count),
        "starting the kernel multiply");
  });
}

void sum_products(const Queue& queue, const Factors& by, const Array& a, const Array& b,
                  const Array& out, std::int64_t count) {
  with_type(out.type, [&]<class T>(std::type_identity<T>) {
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, sum_products_kernel<T>, by, a.as<T>(), b.as<T>(), out.as<T>(),
                             count),
          "starting the kernel sum_products");
  });
}

void add_in_order(const Queue& queue, const Additions& additions, float* first, std::int64_t stride,
                  std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, add_in_order_kernel, additions, first, stride, count),
        "starting the kernel add_in_order");
}

}  // namespace coxswain::backend::cuda
