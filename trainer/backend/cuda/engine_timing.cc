#include "trainer/backend/cuda/engine_timing.h"

#include <algorithm>
#include <limits>

#include "trainer/backend/cuda/recording.h"
#include "trainer/backend/cuda/step_graphs.h"

namespace coxswain::backend::cuda {

namespace {

constexpr int kRuns = 4;         // in a graph, so that the host's pace is not seen
constexpr int kLaunches = 4;     // of which the fastest counts
constexpr double kHopeless = 2;  // times the best so far
// Of memory that a step would have to keep for it.
constexpr std::size_t kMostWorkspace = std::size_t{256} << 20;

// Convolutions of one shape, by operation_name().
struct Operation {
  Convolution convolution;
  std::vector<std::string> names;
  std::vector<std::string> engines = {};
  std::size_t next = 0;  // of these
  std::vector<TimedAlgorithm> tried = {};
};

std::vector<Operation> operations_of(const graph::Program& training, Products& products) {
  std::vector<Operation> operations;
  for (const graph::Step& step : training.steps) {
    if (!is_convolution(training, step)) continue;
    const Convolution convolution = convolution_of(training, step);
    auto found = std::ranges::find(operations, convolution, &Operation::convolution);
    if (found == operations.end()) {
      operations.push_back({convolution, {}});
      found = std::prev(operations.end());
      found->engines = products.engines(convolution);
    }
    found->names.push_back(operation_name(training, step));
  }
  return operations;
}

// Resource. What a convolution reads and writes, all zeros.
class Scratch {
 public:
  Scratch(const Convolution& c, std::size_t workspace, const Queue& queue)
      : x_(zeros(c.x.elements() * tensor::size_of(c.types.x), queue)),
        w_(zeros(c.y.c * c.kernel * c.kernel * (c.x.c / c.groups) * kWidest, queue)),
        y_(zeros(c.y.elements() * tensor::size_of(c.types.y), queue)),
        bias_(zeros(c.y.c * kWidest, queue)),
        workspace_(workspace, "an engine's workspace") {}

  Operands operands() const { return {x_.data(), w_.data(), y_.data(), bias_.data()}; }
  void* workspace() const { return workspace_.data(); }

 private:
  static constexpr std::int64_t kWidest = sizeof(float);
  static DeviceMemory zeros(std::int64_t bytes, const Queue& queue) {
    DeviceMemory memory(static_cast<std::size_t>(bytes), "timing a convolution");
    check(cudaMemsetAsync(memory.data(), 0, memory.size(), queue.stream), "clearing device memory");
    return memory;
  }

  DeviceMemory x_, w_, y_, bias_, workspace_;
};

double seconds_of(const GraphExec& graph, const Queue& queue) {
  const Event begin = make_timed_event();
  const Event end = make_timed_event();
  check(cudaEventRecord(begin.get(), queue.stream), "marking a beginning");
  check(cudaGraphLaunch(graph.get(), queue.stream), "launching a convolution");
  check(cudaEventRecord(end.get(), queue.stream), "marking an end");
  check(cudaEventSynchronize(end.get()), "waiting for a convolution");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "timing a convolution");
  return static_cast<double>(milliseconds) / 1000 / kRuns;
}

double time_product(const Product& product, const Convolution& convolution, const Queue& queue,
                    double best) {
  const Scratch scratch(convolution, product.workspace, queue);
  const auto run = [&] { product.run(scratch.operands(), scratch.workspace(), queue); };
  run();  // loads what is loaded at the first call
  check(cudaStreamBeginCapture(queue.stream, cudaStreamCaptureModeRelaxed), "recording a product");
  for (int i = 0; i < kRuns; ++i) run();
  const GraphExec graph = end_capture(queue.stream);
  double least = seconds_of(graph, queue);
  for (int i = 1; i < kLaunches; ++i) {
    least = std::min(least, seconds_of(graph, queue));
    if (least > kHopeless * best) break;
  }
  return least;
}

// The next of its engines that takes the operation.
void try_next(Operation& operation, Products& products, const Queue& queue, const KeepOn& keep_on) {
  double best = std::numeric_limits<double>::max();
  for (const TimedAlgorithm& one : operation.tried) best = std::min(best, one.seconds);
  while (operation.next < operation.engines.size() && keep_on()) {
    const std::string& engine = operation.engines[operation.next++];
    const auto product = products.prepare_with(engine, operation.convolution);
    const bool is_own = operation.next == 1;
    if (!product && is_own) operation.engines.clear();  // nothing to compare others with
    if (!product || (product->workspace > kMostWorkspace && !is_own)) continue;
    operation.tried.push_back({engine, time_product(*product, operation.convolution, queue, best)});
    return;
  }
}

}  // namespace

AlgorithmTimes time_engines(const graph::Program& training, Products& products, const Queue& queue,
                            const KeepOn& keep_on) {
  std::vector<Operation> operations = operations_of(training, products);
  for (int i = 0; i < kMostEngines; ++i) {
    for (Operation& operation : operations) try_next(operation, products, queue, keep_on);
  }
  AlgorithmTimes times;
  for (const Operation& operation : operations) {
    if (operation.tried.size() < 2) continue;
    for (const std::string& name : operation.names) times[name] = operation.tried;
  }
  return times;
}

}  // namespace coxswain::backend::cuda
