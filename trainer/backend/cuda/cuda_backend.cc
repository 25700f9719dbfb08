#include "trainer/backend/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/backend/cuda/cuda_executable.h"
#include "trainer/backend/cuda/cuda_memory.h"
#include "trainer/backend/cuda/engine_timing.h"
#include "trainer/backend/cuda/optimizer.h"
#include "trainer/backend/cuda/weight_layout.h"
#include "trainer/contract/error.h"

namespace coxswain::backend {

namespace {

using cuda::check;

// Makes `device` this thread's; its attributes. First of all that is done with CUDA.
int multiprocessors_of(int device) {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess || device >= count) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[cuda] GPU {} is wanted, but this process sees {}{}{}: give the pod "
                            "GPUs, install NVIDIA's driver, or say device: cpu",
                            device, count, result == cudaSuccess ? "" : ": ",
                            result == cudaSuccess ? "" : cudaGetErrorString(result)));
  }
  check(cudaSetDevice(device), "taking the GPU");
  int multiprocessors = 0;
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "asking for the GPU's multiprocessors");
  return multiprocessors;
}

std::string model_of(int device) {
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, device), "asking for the GPU's name");
  return properties.name;
}

// Resource.
class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device)
      : multiprocessors_(multiprocessors_of(device)), model_(model_of(device)) {
    shared_.queue = {shared_.stream.get(), multiprocessors_};
  }

  std::optional<AlgorithmTimes> time_algorithms(const graph::Program& training,
                                                const KeepOn& keep_on) override {
    return cuda::time_engines(training, shared_.products, queue_, keep_on);
  }
  void use(const Algorithms& algorithms) override { shared_.algorithms = algorithms; }
  tensor::ParameterLayout layout(const graph::Program& training, LayoutKind kind) override;
  std::unique_ptr<Parameters> make_parameters(const tensor::ParameterLayout& layout,
                                              int num_slots) override {
    shared_.steps.forget();
    return std::make_unique<Parameters>(memory_, layout, num_slots);
  }
  std::unique_ptr<Executable> prepare(const graph::Program& program,
                                      Parameters& parameters) override {
    shared_.steps.forget();
    return std::make_unique<cuda::CudaExecutable>(shared_, program, parameters);
  }
  void to_canonical(const tensor::Segment& segment, std::span<const float> stored,
                    std::span<float> canonical) override;
  void from_canonical(const tensor::Segment& segment, std::span<const float> canonical,
                      std::span<float> stored) override;
  void begin_step(std::span<const std::int64_t> rows) override { shared_.steps.begin(rows); }
  void end_step() override { shared_.steps.end(); }
  void update(const optim::UpdateRule& rule, const optim::LearningRate& rate, float statistic_parts,
              Parameters& parameters) override {
    optimizer_.update(rule, rate, statistic_parts, parameters);
  }
  std::string fingerprint() const override {
    return fmt::format("cuda gpu=\"{}\" {} layout=nhwc", model_, shared_.products.versions());
  }
  cuda::Shared& shared() { return shared_; }

 private:
  int multiprocessors_;  // first: takes the device
  std::string model_;
  cuda::Shared shared_;
  cuda::Queue& queue_ = shared_.queue;
  cuda::CudaMemory memory_{{shared_.stream.get(), multiprocessors_}, shared_.steps};
  cuda::Optimizer optimizer_{shared_};
};

tensor::ParameterLayout CudaBackend::layout(const graph::Program& training, LayoutKind kind) {
  std::vector<tensor::Segment> segments;
  for (const graph::Parameter& parameter : training.parameters) {
    tensor::Segment segment{.name = parameter.name, .kind = parameter.kind, .dims = parameter.dims};
    segment.stored = segment.elements();
    const auto order = cuda::weight_order(training.graph, parameter);
    if (order && kind == LayoutKind::kNative) segment.layout = cuda::to_layout(*order);
    segments.push_back(std::move(segment));
  }
  return tensor::pack(std::move(segments));
}

void CudaBackend::to_canonical(const tensor::Segment& segment, std::span<const float> stored,
                               std::span<float> canonical) {
  const auto order = cuda::order_of(segment);
  if (!order) {
    std::ranges::copy(stored, canonical.begin());
    return;
  }
  cuda::transpose(stored, canonical, order->cells, order->channels);
}

void CudaBackend::from_canonical(const tensor::Segment& segment, std::span<const float> canonical,
                                 std::span<float> stored) {
  const auto order = cuda::order_of(segment);
  if (!order) {
    std::ranges::copy(canonical, stored.begin());
    return;
  }
  cuda::transpose(canonical, stored, order->channels, order->cells);
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(int device) {
  return std::make_unique<CudaBackend>(device);
}

int count_gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string pci_id_of(int device) {
  char id[32] = {};
  return cudaDeviceGetPCIBusId(id, sizeof(id), device) == cudaSuccess ? id : "";
}

cuda::Shared& cuda::shared_of(Backend& backend) {
  auto* on_gpu = dynamic_cast<CudaBackend*>(&backend);
  if (on_gpu == nullptr) throw Error(ExitCode::kInternal, "[cuda] this backend is of no GPU");
  return on_gpu->shared();
}

}  // namespace coxswain::backend
