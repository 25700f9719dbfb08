#include "trainer/backend/cuda/kernels/launch.h"
#include "trainer/tensor/philox.h"

namespace coxswain::backend::cuda {

namespace {

// The draw goes by the element's index in (C, H, W), wherever it lies: the same as on a host.
template <class T>
__global__ void dropout_kernel(const StepInputs* inputs, const std::int64_t* sample_ids,
                               std::uint32_t stream, float rate, Shape shape, const T* from,
                               T* to) {
  const float scale = 1 / (1 - rate);
  const std::int64_t plane = shape.h * shape.w;
  const std::int64_t count = shape.n * plane * shape.c;
  for (std::int64_t i = loop_start(); i < count; i += loop_stride()) {
    const std::int64_t pixel = i / shape.c;
    const std::int64_t index = i % shape.c * plane + pixel % plane;
    const tensor::PhiloxCounter counter{static_cast<std::uint32_t>(sample_ids[pixel / plane]),
                                        static_cast<std::uint32_t>(inputs->epoch), stream,
                                        static_cast<std::uint32_t>(index / 4)};
    const auto words = tensor::philox(inputs->seed, counter);
    const bool kept = tensor::to_uniform(words[static_cast<std::size_t>(index % 4)]) >= rate;
    to[i] = kept ? from[i] * scale : 0;
  }
}

}  // namespace

void dropout(const Queue& queue, const StepInputs* inputs, const std::int64_t* sample_ids,
             std::uint32_t stream, float rate, const Shape& shape, const Array& from,
             const Array& to) {
  with_type(to.type, [&]<class T>(std::type_identity<T>) {
    const cudaLaunchConfig_t config = loop_over(queue, shape.elements());
    check(cudaLaunchKernelEx(&config, dropout_kernel<T>, inputs, sample_ids, stream, rate, shape,
                             from.as<T>(), to.as<T>()),
          "starting the kernel dropout");
  });
}

}  // namespace coxswain::backend::cuda
