#include "trainer/backend/cuda/kernels/launch.h"
#include "trainer/tensor/pixels.h"

namespace coxswain::backend::cuda {

namespace {

__global__ void normalise_kernel(const std::uint8_t* bytes, const float* table, std::int64_t count,
                                 std::int64_t channels, float* out) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const std::int64_t channel = i % channels;
    out[i] = table[channel * tensor::kPixelValues + bytes[i]];
  }
}

__global__ void transpose_kernel(const float* from, float* to, std::int64_t count, std::int64_t a,
                                 std::int64_t b) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const std::int64_t outer = i / (a * b);
    const std::int64_t inner = i % (a * b);
    to[i] = from[(outer * a + inner % a) * b + inner / a];
  }
}

__global__ void copy_channels_kernel(const float* x, Channels from, float* y, Channels to,
                                     std::int64_t channels, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const std::int64_t pixel = i / channels;
    const std::int64_t channel = i % channels;
    y[pixel * to.all + to.first + channel] = x[pixel * from.all + from.first + channel];
  }
}

}  // namespace

void normalise(const Queue& queue, const std::uint8_t* bytes, const float* table,
               std::int64_t pixels, std::int64_t channels, float* out) {
  const std::int64_t count = pixels * channels;
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, normalise_kernel, bytes, table, count, channels, out),
        "starting the kernel normalise");
}

void transpose(const Queue& queue, const float* from, float* to, std::int64_t outer, std::int64_t a,
               std::int64_t b) {
  const std::int64_t count = outer * a * b;
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, transpose_kernel, from, to, count, a, b),
        "starting the kernel transpose");
}

void copy_channels(const Queue& queue, const float* x, const Channels& from, float* y,
                   const Channels& to, std::int64_t channels, std::int64_t pixels) {
  const std::int64_t count = pixels * channels;
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, copy_channels_kernel, x, from, y, to, channels, count),
        "starting the kernel copy_channels");
}

}  // namespace coxswain::backend::cuda
