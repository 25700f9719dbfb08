#include "trainer/backend/cuda/kernels/launch.h"
#include "trainer/tensor/pixels.h"

namespace coxswain::backend::cuda {

namespace {

template <class T>
__global__ void normalise_kernel(const std::uint8_t* bytes, const float* table, std::int64_t count,
                                 std::int64_t channels, T* out) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const std::int64_t channel = i % channels;
    out[i] = table[channel * tensor::kPixelValues + bytes[i]];
  }
}

template <class T>
__global__ void transpose_kernel(const T* from, T* to, std::int64_t count, std::int64_t a,
                                 std::int64_t b) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const std::int64_t outer = i / (a * b);
    const std::int64_t inner = i % (a * b);
    to[i] = from[(outer * a + inner % a) * b + inner / a];
  }
}

template <class T>
__global__ void copy_channels_kernel(const T* x, Channels from, T* y, Channels to,
                                     std::int64_t channels, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const std::int64_t pixel = i / channels;
    const std::int64_t channel = i % channels;
    y[pixel * to.all + to.first + channel] = x[pixel * from.all + from.first + channel];
  }
}

template <class From, class To>
__global__ void convert_kernel(const From* from, To* to, std::int64_t count) {
  for (std::int64_t i = loop_start(); i < count; i += loop_stride())
    to[i] = static_cast<float>(from[i]);
}

template <class From, class To>
void start_convert(const Queue& queue, const Array& from, const Array& to, std::int64_t count) {
  const cudaLaunchConfig_t config = loop_over(queue, count);
  check(cudaLaunchKernelEx(&config, convert_kernel<From, To>, from.as<From>(), to.as<To>(), count),
        "starting the kernel convert");
}

}  // namespace

void normalise(const Queue& queue, const std::uint8_t* bytes, const float* table,
               std::int64_t pixels, std::int64_t channels, const Array& out) {
  with_type(out.type, [&]<class T>(std::type_identity<T>) {
    const std::int64_t count = pixels * channels;
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, normalise_kernel<T>, bytes, table, count, channels,
                             out.as<T>()),
          "starting the kernel normalise");
  });
}

void convert(const Queue& queue, const Array& from, const Array& to, std::int64_t count) {
  const bool narrows = from.type == tensor::DataType::kFloat32;
  with_type(narrows ? to.type : from.type, [&]<class T>(std::type_identity<T>) {
    narrows ? start_convert<float, T>(queue, from, to, count)
            : start_convert<T, float>(queue, from, to, count);
  });
}

void transpose(const Queue& queue, const Array& from, const Array& to, std::int64_t outer,
               std::int64_t a, std::int64_t b) {
  with_type(to.type, [&]<class T>(std::type_identity<T>) {
    const std::int64_t count = outer * a * b;
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, transpose_kernel<T>, from.as<T>(), to.as<T>(), count, a, b),
          "starting the kernel transpose");
  });
}

void copy_channels(const Queue& queue, const Array& x, const Channels& from, const Array& y,
                   const Channels& to, std::int64_t channels, std::int64_t pixels) {
  with_type(y.type, [&]<class T>(std::type_identity<T>) {
    const std::int64_t count = pixels * channels;
    const cudaLaunchConfig_t config = loop_over(queue, count);
    check(cudaLaunchKernelEx(&config, copy_channels_kernel<T>, x.as<T>(), from, y.as<T>(), to,
                             channels, count),
          "starting the kernel copy_channels");
  });
}

}  // namespace coxswain::backend::cuda
