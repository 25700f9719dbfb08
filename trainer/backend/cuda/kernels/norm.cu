#include "trainer/backend/cuda/kernels/row_sums.h"

namespace coxswain::backend::cuda {

namespace {

// `moments` holds the means, then 1 / sqrt(variance + epsilon), then the number of rows.

template <class T>
struct Values {
  static constexpr int kSums = 1;
  const T* x;
  __device__ double operator()(std::int64_t i, std::int64_t, int) const { return x[i]; }
};

template <class T>
struct Squares {
  static constexpr int kSums = 1;
  const T* x;
  const double* means;
  __device__ double operator()(std::int64_t i, std::int64_t c, int) const {
    const double centred = x[i] - means[c];
    return centred * centred;
  }
};

// d(y) before the activation, and that times the normalised x.
template <class T>
struct Gradients {
  static constexpr int kSums = 2;
  const T* x;
  const T* y;
  const T* d_y;
  const double* moments;
  std::int64_t channels;
  Activation activation;

  __device__ double gradient(std::int64_t i) const {
    if (activation == Activation::kNone) return d_y[i];
    return d_y[i] * static_cast<double>(derivative_at_output(activation, y[i]));
  }
  __device__ double normalised(std::int64_t i, std::int64_t c) const {
    return (x[i] - moments[c]) * moments[channels + c];
  }
  __device__ double operator()(std::int64_t i, std::int64_t c, int sum) const {
    return sum == 0 ? gradient(i) : gradient(i) * normalised(i, c);
  }
};

__global__ void finish_means_kernel(const double* partial, std::int64_t rows, std::int64_t channels,
                                    Chunks chunks, double* moments, float* running_mean) {
  if (loop_start() == 0) moments[2 * channels] = static_cast<double>(rows);
  for (std::int64_t c = loop_start(); c < channels; c += loop_stride()) {
    const double mean = sum_of_chunks(partial, channels, chunks, c, 0) / static_cast<double>(rows);
    moments[c] = mean;
    running_mean[c] = static_cast<float>(mean);
  }
}

// The running average takes the variance with divisor rows - 1.
__device__ float unbiased(double variance, double rows) {
  return static_cast<float>(rows < 2 ? variance : variance * rows / (rows - 1));
}

__global__ void finish_variances_kernel(const double* partial, std::int64_t rows,
                                        std::int64_t channels, Chunks chunks, float epsilon,
                                        double* moments, float* running_variance) {
  for (std::int64_t c = loop_start(); c < channels; c += loop_stride()) {
    const double variance =
        sum_of_chunks(partial, channels, chunks, c, 0) / static_cast<double>(rows);
    moments[channels + c] = 1 / sqrt(variance + static_cast<double>(epsilon));
    running_variance[c] = unbiased(variance, static_cast<double>(rows));
  }
}

__global__ void own_moments_kernel(Norm norm, const double* moments, float* own) {
  if (loop_start() == 0) own[0] = static_cast<float>(norm.images);  // exact: fewer than 2^24
  for (std::int64_t c = loop_start(); c < norm.channels; c += loop_stride()) {
    const double inverse = moments[norm.channels + c];
    const double variance = 1 / (inverse * inverse) - static_cast<double>(norm.epsilon);
    own[1 + c] = static_cast<float>(moments[c]);
    own[1 + norm.channels + c] = static_cast<float>(fmax(variance, 0.0));
  }
}

// Chan, Golub, LeVeque 1979, "Updating formulae", 2.1, in rank order.
__global__ void join_moments_kernel(Norm norm, const float* all, int ranks, double* moments,
                                    float* running_mean, float* running_variance) {
  const std::int64_t channels = norm.channels;
  for (std::int64_t c = loop_start(); c < channels; c += loop_stride()) {
    double images = 0;
    double mean = 0;
    double squares = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const float* of = all + rank * norm_values(channels);
      const double more = of[0];
      const double apart = of[1 + c] - mean;
      mean += apart * more / (images + more);
      squares += of[1 + channels + c] * more + apart * apart * images * more / (images + more);
      images += more;
    }
    const double variance = squares / images;
    const double rows = images * static_cast<double>(norm.rows / norm.images);
    moments[c] = mean;
    moments[channels + c] = 1 / sqrt(variance + static_cast<double>(norm.epsilon));
    if (c == 0) moments[2 * channels] = rows;
    running_mean[c] = static_cast<float>(mean);
    running_variance[c] = unbiased(variance, rows);
  }
}

__global__ void running_moments_kernel(const float* mean, const float* variance,
                                       std::int64_t channels, float epsilon, double* moments) {
  for (std::int64_t c = loop_start(); c < channels; c += loop_stride()) {
    moments[c] = mean[c];
    moments[channels + c] = 1 / sqrt(variance[c] + static_cast<double>(epsilon));
  }
}

template <class T>
__global__ void forward_kernel(Norm norm, const T* x, const double* moments, const float* gamma,
                               const float* beta, T* y) {
  const std::int64_t count = norm.rows * norm.channels;
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const std::int64_t c = i % norm.channels;
    const double scale =
        gamma == nullptr ? moments[norm.channels + c] : moments[norm.channels + c] * gamma[c];
    const double value = (x[i] - moments[c]) * scale + beta[c];
    y[i] = activated(norm.activation, static_cast<float>(value));
  }
}

__global__ void finish_gradients_kernel(const double* partial, std::int64_t channels, Chunks chunks,
                                        double* sums, float* d_gamma, float* d_beta) {
  for (std::int64_t c = loop_start(); c < channels; c += loop_stride()) {
    sums[c] = sum_of_chunks(partial, channels, chunks, c, 0);
    sums[channels + c] = sum_of_chunks(partial, channels, chunks, c, 1);
    d_beta[c] = static_cast<float>(sums[c]);
    if (d_gamma != nullptr) d_gamma[c] = static_cast<float>(sums[channels + c]);
  }
}

__global__ void own_sums_kernel(std::int64_t count, const double* sums, float* own) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride())
    own[i] = static_cast<float>(sums[i]);
}

__global__ void join_sums_kernel(std::int64_t count, const float* all, int ranks, double* sums) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    double sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += all[rank * count + i];
    sums[i] = sum;
  }
}

// Ioffe & Szegedy 2015, section 3.
template <class T>
__global__ void backward_kernel(Norm norm, Gradients<T> of, const double* sums, const float* gamma,
                                T* d_x) {
  const std::int64_t count = norm.rows * norm.channels;
  const double rows = of.moments[2 * norm.channels];
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const std::int64_t c = i % norm.channels;
    const double inverse = of.moments[norm.channels + c];
    const double scale = gamma == nullptr ? inverse : gamma[c] * inverse;
    const double centred =
        of.gradient(i) - sums[c] / rows - of.normalised(i, c) * sums[norm.channels + c] / rows;
    d_x[i] = static_cast<float>(scale * centred);
  }
}

template <class T>
Gradients<T> gradients_of(const Norm& norm, const Array& x, const Array& y, const Array& d_y,
                          const double* moments) {
  return {x.as<T>(), y.as<T>(), d_y.as<T>(), moments, norm.channels, norm.activation};
}

}  // namespace

void norm_moments(const Queue& queue, const Norm& norm, const Array& x, double* partial,
                  double* moments, float* running_mean, float* running_variance) {
  with_type(x.type, [&]<class T>(std::type_identity<T>) {
    const Chunks chunks = chunks_of(norm.rows);
    const cudaLaunchConfig_t config = loop_over(queue, norm.channels);
    start_partial_sums(queue, Values<T>{x.as<T>()}, norm.rows, norm.channels, partial);
    check(cudaLaunchKernelEx(&config, finish_means_kernel, partial, norm.rows, norm.channels,
                             chunks, moments, running_mean),
          "starting the kernel finish_means");
    start_partial_sums(queue, Squares<T>{x.as<T>(), moments}, norm.rows, norm.channels, partial);
    check(cudaLaunchKernelEx(&config, finish_variances_kernel, partial, norm.rows, norm.channels,
                             chunks, norm.epsilon, moments, running_variance),
          "starting the kernel finish_variances");
  });
}

void norm_own_moments(const Queue& queue, const Norm& norm, const double* moments, float* own) {
  const cudaLaunchConfig_t config = loop_over(queue, norm.channels);
  check(cudaLaunchKernelEx(&config, own_moments_kernel, norm, moments, own),
        "starting the kernel own_moments");
}

void norm_join_moments(const Queue& queue, const Norm& norm, const float* all, int ranks,
                       double* moments, float* running_mean, float* running_variance) {
  const cudaLaunchConfig_t config = loop_over(queue, norm.channels);
  check(cudaLaunchKernelEx(&config, join_moments_kernel, norm, all, ranks, moments, running_mean,
                           running_variance),
        "starting the kernel join_moments");
}

void norm_running_moments(const Queue& queue, const Norm& norm, const float* running_mean,
                          const float* running_variance, double* moments) {
  const cudaLaunchConfig_t config = loop_over(queue, norm.channels);
  check(cudaLaunchKernelEx(&config, running_moments_kernel, running_mean, running_variance,
                           norm.channels, norm.epsilon, moments),
        "starting the kernel running_moments");
}

void norm_forward(const Queue& queue, const Norm& norm, const Array& x, const double* moments,
                  const float* gamma, const float* beta, const Array& y) {
  with_type(y.type, [&]<class T>(std::type_identity<T>) {
    const cudaLaunchConfig_t config = loop_over(queue, norm.rows * norm.channels);
    check(cudaLaunchKernelEx(&config, forward_kernel<T>, norm, x.as<T>(), moments, gamma, beta,
                             y.as<T>()),
          "starting the kernel norm_forward");
  });
}

void norm_gradients(const Queue& queue, const Norm& norm, const Array& x, const Array& y,
                    const Array& d_y, const double* moments, double* partial, double* sums,
                    float* d_gamma, float* d_beta) {
  with_type(x.type, [&]<class T>(std::type_identity<T>) {
    start_partial_sums(queue, gradients_of<T>(norm, x, y, d_y, moments), norm.rows, norm.channels,
                       partial);
    const cudaLaunchConfig_t each = loop_over(queue, norm.channels);
    check(cudaLaunchKernelEx(&each, finish_gradients_kernel, partial, norm.channels,
                             chunks_of(norm.rows), sums, d_gamma, d_beta),
          "starting the kernel finish_gradients");
  });
}

void norm_own_sums(const Queue& queue, const Norm& norm, const double* sums, float* own) {
  const std::int64_t count = 2 * norm.channels;
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, own_sums_kernel, count, sums, own),
        "starting the kernel own_sums");
}

void norm_join_sums(const Queue& queue, const Norm& norm, const float* all, int ranks,
                    double* sums) {
  const std::int64_t count = 2 * norm.channels;
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, join_sums_kernel, count, all, ranks, sums),
        "starting the kernel join_sums");
}

void norm_backward(const Queue& queue, const Norm& norm, const Array& x, const Array& y,
                   const Array& d_y, const double* moments, const double* sums, const float* gamma,
                   const Array& d_x) {
  with_type(x.type, [&]<class T>(std::type_identity<T>) {
    const cudaLaunchConfig_t config = loop_over(queue, norm.rows * norm.channels);
    check(cudaLaunchKernelEx(&config, backward_kernel<T>, norm,
                             gradients_of<T>(norm, x, y, d_y, moments), sums, gamma, d_x.as<T>()),
          "starting the kernel norm_backward");
  });
}

}  // namespace coxswain::backend::cuda
