#include "trainer/backend/onednn/onednn_backend.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>

#include "trainer/backend/host_update.h"
#include "trainer/backend/onednn/convolution_algorithm.h"
#include "trainer/backend/onednn/onednn_executable.h"
#include "trainer/backend/onednn/operations.h"

namespace coxswain::backend {

namespace {

using onednn::Desc;
using onednn::Type;

const char* isa_name(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "other";
  }
}

class OneDnnBackend : public Backend {
 public:
  explicit OneDnnBackend(const OneDnnOptions& options) { shared_.options = options; }

  AlgorithmChoices algorithm_choices(const graph::Program& training) const override {
    return onednn::convolution_choices(training, shared_.options.winograd);
  }
  void use(const Algorithms& algorithms) override { shared_.options.algorithms = algorithms; }
  std::string remark(const graph::Program& training) const override;
  tensor::ParameterLayout layout(const graph::Program& training, LayoutKind kind) override;
  std::unique_ptr<Parameters> make_parameters(const tensor::ParameterLayout& layout,
                                              int num_slots) override {
    return std::make_unique<Parameters>(memory_, layout, num_slots);
  }
  std::unique_ptr<Executable> prepare(const graph::Program& program,
                                      Parameters& parameters) override;
  void to_canonical(const tensor::Segment& segment, std::span<const float> stored,
                    std::span<float> canonical) override;
  void from_canonical(const tensor::Segment& segment, std::span<const float> canonical,
                      std::span<float> stored) override;
  void update(const optim::UpdateRule& rule, const optim::LearningRate& rate, float statistic_parts,
              Parameters& parameters) override;
  std::string fingerprint() const override;

 private:
  std::optional<Desc> native_order(const graph::Program& training,
                                   const graph::Parameter& parameter);
  void reorder(dnnl::memory from, dnnl::memory to);

  tensor::HostMemory memory_;
  onednn::Shared shared_;
};

std::string OneDnnBackend::remark(const graph::Program& training) const {
  const bool emulates = onednn::compute_type(training) == Type::bf16 &&
                        !onednn::has_isa(dnnl::cpu_isa::avx512_core_bf16);
  return emulates
             ? "precision bf16: this CPU has no instructions for it; fp32 is faster (2.7 times "
               "as fast for cifar-resnet8)"
             : "";
}

// The order in which the weight-gradient kernel of a layer writes; nothing for vectors.
std::optional<Desc> OneDnnBackend::native_order(const graph::Program& training,
                                                const graph::Parameter& parameter) {
  if (!parameter.is_matrix()) return std::nullopt;
  const graph::Node& node = training.graph.nodes[static_cast<std::size_t>(parameter.node)];
  const auto weight_order = onednn::recorder_of(node.op).weight_order;
  if (weight_order == nullptr) return std::nullopt;
  try {
    const std::optional<Desc> order =
        weight_order(shared_.engine, {&training, parameter.node, &shared_.options});
    if (order && onednn::is_blocked(*order)) return order;
  } catch (const dnnl::error& error) {
    onednn::refuse_layer(training, parameter.node, error);
  }
  return std::nullopt;
}

tensor::ParameterLayout OneDnnBackend::layout(const graph::Program& training, LayoutKind kind) {
  omp_set_num_threads(shared_.options.threads);
  std::vector<tensor::Segment> segments;
  for (const graph::Parameter& parameter : training.parameters) {
    tensor::Segment segment{.name = parameter.name, .kind = parameter.kind, .dims = parameter.dims};
    segment.stored = segment.elements();
    const std::optional<Desc> order =
        kind == LayoutKind::kNative ? native_order(training, parameter) : std::nullopt;
    if (order) {
      segment.layout = shared_.layouts.add(*order);
      segment.stored = static_cast<std::int64_t>(order->get_size() / sizeof(float));
    }
    segments.push_back(std::move(segment));
  }
  return tensor::pack(std::move(segments));
}

std::unique_ptr<Executable> OneDnnBackend::prepare(const graph::Program& program,
                                                   Parameters& parameters) {
  omp_set_num_threads(shared_.options.threads);
  return std::make_unique<onednn::OneDnnExecutable>(shared_, program, parameters);
}

// On whichever thread: each has a number of its own, and a new one, as the saver's, takes all
// cores.
void OneDnnBackend::reorder(dnnl::memory from, dnnl::memory to) {
  omp_set_num_threads(shared_.options.threads);
  dnnl::stream stream(shared_.engine);
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
}

void OneDnnBackend::to_canonical(const tensor::Segment& segment, std::span<const float> stored,
                                 std::span<float> canonical) {
  if (segment.layout == "canonical") {
    std::ranges::copy(stored, canonical.begin());
    return;
  }
  const Desc order = shared_.layouts.find(segment);
  const Desc plain = onednn::plain(onednn::dims_of(order), Type::f32);
  reorder({order, shared_.engine, const_cast<float*>(stored.data())},
          {plain, shared_.engine, canonical.data()});
}

void OneDnnBackend::from_canonical(const tensor::Segment& segment, std::span<const float> canonical,
                                   std::span<float> stored) {
  if (segment.layout == "canonical") {
    std::ranges::copy(canonical, stored.begin());
    return;
  }
  const Desc order = shared_.layouts.find(segment);
  const Desc plain = onednn::plain(onednn::dims_of(order), Type::f32);
  reorder({plain, shared_.engine, const_cast<float*>(canonical.data())},
          {order, shared_.engine, stored.data()});
}

void OneDnnBackend::update(const optim::UpdateRule& rule, const optim::LearningRate& rate,
                           float statistic_parts, Parameters& parameters) {
  const auto count = count_update(parameters);
  if (!count) return;
  const optim::UpdateStep step{rate.lr, rate.momentum, *count, statistic_parts,
                               gradient_factor(rule, parameters)};
  const auto& segments = parameters.layout().segments;
  const std::int64_t size = parameters.layout().size();
  const int threads = shared_.options.threads;
  // The first segment that starts in or after a thread's share of the buffer.
  const auto first_of = [&](int thread) {
    const std::int64_t offset = size * thread / threads;
    const auto found = std::ranges::lower_bound(segments, offset, {}, &tensor::Segment::offset);
    return static_cast<int>(found - segments.begin());
  };
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int thread = 0; thread < threads; ++thread) {
    const int last =
        thread + 1 == threads ? static_cast<int>(segments.size()) : first_of(thread + 1);
    update_segments(rule, step, parameters, first_of(thread), last);
  }
}

std::string OneDnnBackend::fingerprint() const {
  const dnnl_version_t& version = *dnnl_version();
  std::string result =
      fmt::format("oneDNN {}.{}.{} {} threads={} convolution={}", version.major, version.minor,
                  version.patch, isa_name(dnnl::get_effective_cpu_isa()), shared_.options.threads,
                  shared_.options.winograd ? "winograd" : "direct");
  for (const auto& [layer, algorithm] : shared_.options.algorithms)
    result += fmt::format(" {}={}", layer, algorithm);
  return result;
}

}  // namespace

std::unique_ptr<Backend> make_onednn_backend(const OneDnnOptions& options) {
  return std::make_unique<OneDnnBackend>(options);
}

}  // namespace coxswain::backend
