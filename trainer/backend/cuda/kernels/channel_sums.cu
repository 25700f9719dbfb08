#include "trainer/backend/cuda/kernels/row_sums.h"

namespace coxswain::backend::cuda {

namespace {

template <class T>
struct Values {
  static constexpr int kSums = 1;
  const T* x;
  __device__ double operator()(std::int64_t i, std::int64_t, int) const { return x[i]; }
};

__global__ void finish_kernel(const double* partial, std::int64_t channels, Chunks chunks,
                              float* sums) {
  for (std::int64_t c = loop_start(); c < channels; c += loop_stride())
    sums[c] = static_cast<float>(sum_of_chunks(partial, channels, chunks, c, 0));
}

}  // namespace

std::int64_t partial_sums(std::int64_t rows, std::int64_t channels) {
  return 2 * chunks_of(rows).count * channels;
}

void sum_channels(const Queue& queue, const Array& x, std::int64_t rows, std::int64_t channels,
                  double* partial, float* sums) {
  with_type(x.type, [&]<class T>(std::type_identity<T>) {
    start_partial_sums(queue, Values<T>{x.as<T>()}, rows, channels, partial);
    const cudaLaunchConfig_t config = loop_over(queue, channels);
    check(cudaLaunchKernelEx(&config, finish_kernel, partial, channels, chunks_of(rows), sums),
          "starting the kernel sum_channels");
  });
}

}  // namespace coxswain::backend::cuda
