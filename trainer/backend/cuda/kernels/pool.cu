#include "trainer/backend/cuda/kernels/launch.h"

namespace coxswain::backend::cuda {

namespace {

// Rows or columns [first, last).
struct Reach {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

// What the window of output `out` covers inside the image.
__device__ Reach covered(const Window& window, std::int64_t out, std::int64_t size) {
  const std::int64_t first = out * window.stride - window.pad;
  const std::int64_t last = first + window.kernel;
  return {first < 0 ? 0 : first, last < size ? last : size};
}

// The outputs whose windows cover input `in`.
__device__ Reach covering(const Window& window, std::int64_t in, std::int64_t size) {
  const std::int64_t from = in + window.pad - window.kernel + 1;
  const std::int64_t first = from <= 0 ? 0 : (from + window.stride - 1) / window.stride;
  const std::int64_t last = (in + window.pad) / window.stride + 1;
  return {first, last < size ? last : size};
}

// One element of (N, H, W, C).
struct Position {
  std::int64_t n, h, w, c;
};

__device__ Position position_of(const Shape& shape, std::int64_t i) {
  const std::int64_t pixel = i / shape.c;
  return {pixel / (shape.h * shape.w), pixel / shape.w % shape.h, pixel % shape.w, i % shape.c};
}

__device__ std::int64_t index_of(const Shape& shape, const Position& p) {
  return ((p.n * shape.h + p.h) * shape.w + p.w) * shape.c + p.c;
}

// Padding never wins; of equal values the first counts; a NaN wins.
template <class T>
__device__ std::int64_t place_of_maximum(const Window& window, const T* x, const Position& out) {
  const Reach rows = covered(window, out.h, window.in.h);
  const Reach columns = covered(window, out.w, window.in.w);
  std::int64_t best = index_of(window.in, {out.n, rows.first, columns.first, out.c});
  float greatest = x[best];
  for (std::int64_t h = rows.first; h < rows.last; ++h) {
    for (std::int64_t w = columns.first; w < columns.last; ++w) {
      const std::int64_t i = index_of(window.in, {out.n, h, w, out.c});
      const float value = x[i];
      if (value > greatest || value != value) {
        best = i;
        greatest = value;
      }
    }
  }
  return best;
}

__device__ double cells(const Window& window, const Position& out) {
  if (window.counts_padding) return static_cast<double>(window.kernel) * window.kernel;
  const Reach rows = covered(window, out.h, window.in.h);
  const Reach columns = covered(window, out.w, window.in.w);
  return static_cast<double>((rows.last - rows.first) * (columns.last - columns.first));
}

template <class T>
__global__ void max_pool_kernel(Window window, const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride())
    y[i] = x[place_of_maximum(window, x, position_of(window.out, i))];
}

// Each input gathers from the windows that cover it, in the order of the outputs: no two threads
// write one sum.
template <class T>
__global__ void max_pool_backward_kernel(Window window, const T* x, const T* d_y, T* d_x,
                                         std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const Position in = position_of(window.in, i);
    const Reach rows = covering(window, in.h, window.out.h);
    const Reach columns = covering(window, in.w, window.out.w);
    double sum = 0;
    for (std::int64_t h = rows.first; h < rows.last; ++h) {
      for (std::int64_t w = columns.first; w < columns.last; ++w) {
        const Position out{in.n, h, w, in.c};
        if (place_of_maximum(window, x, out) == i) sum += d_y[index_of(window.out, out)];
      }
    }
    d_x[i] = static_cast<float>(sum);
  }
}

template <class T>
__global__ void average_pool_kernel(Window window, const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const Position out = position_of(window.out, i);
    const Reach rows = covered(window, out.h, window.in.h);
    const Reach columns = covered(window, out.w, window.in.w);
    double sum = 0;
    for (std::int64_t h = rows.first; h < rows.last; ++h) {
      for (std::int64_t w = columns.first; w < columns.last; ++w)
        sum += x[index_of(window.in, {out.n, h, w, out.c})];
    }
    y[i] = static_cast<float>(sum / cells(window, out));
  }
}

template <class T>
__global__ void average_pool_backward_kernel(Window window, const T* d_y, T* d_x,
                                             std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const Position in = position_of(window.in, i);
    const Reach rows = covering(window, in.h, window.out.h);
    const Reach columns = covering(window, in.w, window.out.w);
    double sum = 0;
    for (std::int64_t h = rows.first; h < rows.last; ++h) {
      for (std::int64_t w = columns.first; w < columns.last; ++w) {
        const Position out{in.n, h, w, in.c};
        sum += d_y[index_of(window.out, out)] / cells(window, out);
      }
    }
    d_x[i] = static_cast<float>(sum);
  }
}

}  // namespace

void max_pool(const Queue& queue, const Window& window, const Array& x, const Array& y) {
  with_type(y.type, [&]<class T>(std::type_identity<T>) {
    const std::int64_t count = window.out.elements();
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, max_pool_kernel<T>, window, x.as<T>(), y.as<T>(), count),
          "starting the kernel max_pool");
  });
}

void max_pool_backward(const Queue& queue, const Window& window, const Array& x, const Array& d_y,
                       const Array& d_x) {
  with_type(d_x.type, [&]<class T>(std::type_identity<T>) {
    const std::int64_t count = window.in.elements();
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, max_pool_backward_kernel<T>, window, x.as<T>(), d_y.as<T>(),
                             d_x.as<T>(), count),
          "starting the kernel max_pool_backward");
  });
}

void average_pool(const Queue& queue, const Window& window, const Array& x, const Array& y) {
  with_type(y.type, [&]<class T>(std::type_identity<T>) {
    const std::int64_t count = window.out.elements();
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, average_pool_kernel<T>, window, x.as<T>(), y.as<T>(), count),
          "starting the kernel average_pool");
  });
}

void average_pool_backward(const Queue& queue, const Window& window, const Array& d_y,
                           const Array& d_x) {
  with_type(d_x.type, [&]<class T>(std::type_identity<T>) {
    const std::int64_t count = window.in.elements();
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, average_pool_backward_kernel<T>, window, d_y.as<T>(),
                             d_x.as<T>(), count),
          "starting the kernel average_pool_backward");
  });
}

}  // namespace coxswain::backend::cuda
