#include "trainer/backend/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>

#include "trainer/backend/cuda/cuda_executable.h"
#include "trainer/backend/cuda/cuda_memory.h"
#include "trainer/backend/cuda/engine_timing.h"
#include "trainer/backend/cuda/weight_layout.h"
#include "trainer/contract/error.h"
#include "trainer/tensor/device_span.h"
#include "trainer/tensor/fnv1a.h"

namespace coxswain::backend {

namespace {

using cuda::Change;
using cuda::check;
using cuda::UpdateInputs;
using cuda::Verdict;
using tensor::device_span;

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

constexpr std::uint64_t kUpdate = 301;  // word of a step
std::uint64_t word(const void* address) { return std::bit_cast<std::uint64_t>(address); }

std::uint64_t hash_of(const optim::UpdateRule& rule) {
  tensor::Fnv1a hash;
  for (const auto choice :
       {static_cast<std::uint32_t>(rule.kind), static_cast<std::uint32_t>(rule.form),
        static_cast<std::uint32_t>(rule.decay_scope), static_cast<std::uint32_t>(rule.centered),
        static_cast<std::uint32_t>(rule.rounds_to_half)})
    hash.add(choice);
  for (const float value : {rule.weight_decay, rule.beta2, rule.epsilon, rule.statistic_momentum,
                            rule.clip_norm, rule.clip_value, rule.ema_decay})
    hash.add(std::bit_cast<std::uint32_t>(value));
  return hash.hash();
}

// Resource.
class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device)
      : multiprocessors_(multiprocessors_of(device)), model_(model_of(device)) {
    shared_.queue = {shared_.stream.get(), multiprocessors_};
    check(cudaMemsetAsync(verdict_.data(), 0, verdict_.size(), shared_.queue.stream),
          "clearing device memory");
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
              Parameters& parameters) override;
  std::string fingerprint() const override {
    return fmt::format("cuda gpu=\"{}\" {} layout=nhwc", model_, shared_.products.versions());
  }
  cuda::Shared& shared() { return shared_; }

 private:
  // What the optimizer changes, and how, on the device.
  struct Map {
    tensor::ParameterLayout layout;
    DecayScope scope;
    cuda::DeviceMemory changes;
    cuda::DeviceMemory squares;  // partial sums
  };

  template <typename T>
  void send(std::span<const T> from, std::byte* to);
  const Map& map_of(const Parameters& parameters, DecayScope scope);

  int multiprocessors_;  // first: takes the device
  std::string model_;
  cuda::Shared shared_;
  cuda::Queue& queue_ = shared_.queue;
  cuda::CudaMemory memory_{{shared_.stream.get(), multiprocessors_}, shared_.steps};
  cuda::DeviceMemory inputs_{sizeof(UpdateInputs), "the learning rate"};
  cuda::DeviceMemory verdict_{sizeof(Verdict), "the verdict on a step"};
  std::deque<Map> maps_;  // kept: recorded steps name them
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

template <typename T>
void CudaBackend::send(std::span<const T> from, std::byte* to) {
  std::memcpy(shared_.steps.take(from.size_bytes()), from.data(), from.size_bytes());
  shared_.steps.send(to);
}

// What the optimizer does with each granule of the flat buffer.
std::vector<Change> make_changes(const tensor::ParameterLayout& layout, DecayScope scope) {
  std::vector<Change> changes(static_cast<std::size_t>(layout.size() / cuda::kGranule));
  for (const tensor::Segment& segment : layout.segments) {
    Change change = Change::kNothing;
    if (segment.kind == tensor::SegmentKind::kStatistic) change = Change::kStatistic;
    if (tensor::is_trainable(segment.kind))
      change = optim::decays(scope, segment.kind) ? Change::kDecayed : Change::kUndecayed;
    const std::int64_t last = (segment.end() + cuda::kGranule - 1) / cuda::kGranule;
    for (std::int64_t i = segment.offset / cuda::kGranule; i < last; ++i)
      changes[static_cast<std::size_t>(i)] = change;
  }
  return changes;
}

const CudaBackend::Map& CudaBackend::map_of(const Parameters& parameters, DecayScope scope) {
  const auto is_it = [&](const Map& map) {
    return map.scope == scope && map.layout == parameters.layout();
  };
  auto found = std::ranges::find_if(maps_, is_it);
  if (found == maps_.end()) {
    const std::vector<Change> changes = make_changes(parameters.layout(), scope);
    const auto sums = static_cast<std::size_t>(cuda::partial_squares(parameters.layout().size()));
    maps_.push_back({parameters.layout(),
                     scope,
                     {changes.size(), "a map of the parameters"},
                     {sums * sizeof(double), "the norm of the gradients"}});
    found = std::prev(maps_.end());
    send(std::span<const Change>(changes), found->changes.data());
  }
  return *found;
}

void CudaBackend::update(const optim::UpdateRule& rule, const optim::LearningRate& rate,
                         float statistic_parts, Parameters& parameters) {
  const tensor::Segment& control = parameters.layout().control();
  const Map& map = map_of(parameters, rule.decay_scope);
  cuda::FlatBuffer buffer{.weights = device_span(parameters.weights()).data(),
                          .gradients = device_span(parameters.gradients()).data(),
                          .slots = {},
                          .changes = reinterpret_cast<const Change*>(map.changes.data()),
                          .size = parameters.layout().size()};
  const int averages = rule.ema_decay > 0 ? 1 : 0;
  const int slots = parameters.num_slots() - averages;
  for (int slot = 0; slot < slots; ++slot) {
    buffer.slots[static_cast<std::size_t>(slot)] = device_span(parameters.slot(slot)).data();
  }
  if (averages > 0) buffer.average = device_span(parameters.slot(slots)).data();
  const UpdateInputs inputs{rate.lr, rate.momentum, statistic_parts};
  const bool enqueues = shared_.steps.asks({kUpdate, word(&parameters), hash_of(rule)});
  send(std::span(&inputs, 1), inputs_.data());
  if (!enqueues) return;
  auto* verdict = reinterpret_cast<Verdict*>(verdict_.data());
  cuda::find_not_finite(queue_, buffer.gradients, buffer.size, verdict);
  if (rule.clip_norm > 0)
    cuda::sum_squares(queue_, buffer, reinterpret_cast<double*>(map.squares.data()), verdict);
  cuda::decide(queue_, reinterpret_cast<const UpdateInputs*>(inputs_.data()), rule.clip_norm,
               device_span(parameters.gradients(control)).data(),
               device_span(parameters.weights(control)).data(), verdict);
  cuda::update(queue_, rule, verdict, buffer);
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
