#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "trainer/build.h"
#include "trainer/commands.h"
#include "trainer/communicators.h"
#include "trainer/contract/config/config_reader.h"
#include "trainer/graph/models/models.h"
#include "trainer/train/algorithm_timing.h"
#include "trainer/train/all_reduce_strategy.h"
#include "trainer/train/executables.h"
#include "trainer/train/model_state.h"
#include "trainer/train/training_loop.h"

namespace coxswain {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Rates of whole training steps over short intervals; asks training to stop when it has seen
// enough.
class RateRecorder : public train::Observer {
 public:
  RateRecorder(double seconds, std::atomic<bool>& stop) : seconds_(seconds), stop_(stop) {}

  void started(const train::RunInfo& info) override { info_ = info; }
  void stepped(const train::StepReport& report) override {
    constexpr int kWarmUpSteps = 3;
    constexpr double kInterval = 0.3;
    if (report.step <= kWarmUpSteps) {
      begin_ = interval_begin_ = Clock::now();
      interval_step_ = report.step;
      return;
    }
    const double elapsed = seconds_since(interval_begin_);
    if (elapsed < kInterval) return;
    rates_.push_back(static_cast<double>((report.step - interval_step_) * info_.global_batch) /
                     elapsed);
    interval_begin_ = Clock::now();
    interval_step_ = report.step;
    if (seconds_since(begin_) >= seconds_) stop_.store(true);
  }
  void finished_epoch(const train::EpochReport&) override {}
  void saved(const train::CheckpointReport&) override {}
  void warned(const std::string& message) override { fmt::print(stderr, "{}\n", message); }
  void finished(const train::Summary&) override {}

  const train::RunInfo& info() const { return info_; }
  double best() const { return *std::max_element(rates_.begin(), rates_.end()); }
  double median() const {
    std::vector<double> sorted = rates_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }

 private:
  double seconds_;
  std::atomic<bool>& stop_;
  train::RunInfo info_;
  Clock::time_point begin_;
  Clock::time_point interval_begin_;
  std::int64_t interval_step_ = 0;
  std::vector<double> rates_;
};

double best_seconds(backend::Executable& executable, int step) {
  double best = 1e9;
  const auto start = Clock::now();
  for (int i = 0; i < 8 || (seconds_since(start) < 0.02 && i < 200); ++i) {
    const auto once = Clock::now();
    executable.run(step);
    best = std::min(best, seconds_since(once));
  }
  return best;
}

graph::Program training_program(const contract::TrainerConfig& config,
                                const train::TrainOptions& options, const data::Dataset& dataset) {
  const tensor::Shape sample = augment::result_of(config.data.augment, dataset.sample_shape());
  const graph::Graph graph = train::build_graph(options, sample, dataset.classes(), 0);
  return graph::compile(graph, config.batch_size, options.precision, graph::Mode::kTraining);
}

// Of each layer that can be computed in several ways, what each takes; the one that is taken first.
void print_plan(const graph::Program& program, const train::TrainOptions& options,
                const train::Collaborators& with) {
  const backend::AlgorithmTimes times = train::algorithm_times(program, options, with);
  if (times.empty()) fmt::print("no layer of this model has a choice on this device\n");
  for (const auto& [layer, tried] : times) {
    std::string said;
    for (const backend::TimedAlgorithm& one : tried)
      said += fmt::format("{}{} {:.3f} ms", said.empty() ? "" : ", ", one.name, 1e3 * one.seconds);
    const auto fastest = std::ranges::min_element(tried, {}, &backend::TimedAlgorithm::seconds);
    const double gain = tried.front().seconds / fastest->seconds;
    fmt::print(
        "{}: {}{}\n", layer, said,
        gain < 1.005 ? "" : fmt::format("; {} is {:.2f} times as fast", fastest->name, gain));
  }
  if (!times.empty())
    fmt::print(
        "a run takes the first of each line, and under reproducible: none what makes a step "
        "faster\n");
}

// The engine's own limit: images a second if a step were its convolutions and dense layers alone.
double limit(const contract::TrainerConfig& config, const graph::Program& program,
             backend::Backend& backend) {
  const tensor::Shape& sample = program.graph.input().shape;
  const auto parameters =
      backend.make_parameters(backend.layout(program, backend::LayoutKind::kNative), 0);
  train::initialise(program, config.seed, backend, *parameters);
  const auto executable = backend.prepare(program, *parameters);
  const auto rows = static_cast<std::size_t>(config.batch_size);
  const std::vector<std::uint8_t> images(rows * static_cast<std::size_t>(sample.per_sample()));
  const std::vector<float> table(static_cast<std::size_t>(sample.c * tensor::kPixelValues), 0.5F);
  const std::vector<std::int32_t> labels(rows, 0);
  const std::vector<std::int64_t> ids(rows, 0);
  backend::forward(*executable, {{images, table}, labels, ids, 0, 0, config.batch_size, 1});
  backend::backward(*executable, [](int) {});
  double seconds = 0;
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    if (program.steps[i].kind == graph::StepKind::kJoinGradients) continue;
    if (graph::multiply_accumulates(program.graph, program.steps[i].node) > 0) {
      seconds += best_seconds(*executable, static_cast<int>(i));
    }
  }
  return static_cast<double>(config.batch_size) / seconds;
}

}  // namespace

int run_bench(const CommandLine& line) {
  const contract::TrainerConfig config = read_configuration(line).config;
  train::TrainOptions options = make_train_options(config, std::nullopt);
  take_network(config, options);
  options.threads = threads_per_rank(config, ranks_on_this_machine(std::nullopt));
  options.data_workers = loader_threads(config, ranks_on_this_machine(std::nullopt));
  options.epochs.reset();
  options.steps = 1'000'000'000;
  options.report_every_steps = 1;
  options.checkpoint = {};
  options.timeline = {};
  const auto training = open_training_set(config);
  auto communicator = make_communicator(config, std::nullopt, nullptr);
  const int rank = communicator->rank();
  std::atomic<bool> stop = false;
  RateRecorder recorder(line.seconds, stop);
  const auto backend = make_backend(config, options.threads, gpu_of_rank(config));
  train::SaveGate saves;
  train::Collaborators with{
      *backend, *training, nullptr, std::move(communicator), train::make_all_reduce_strategy,
      recorder, stop,      saves};
  const graph::Program program = training_program(config, options, *training);
  if (line.print_plan) {
    if (rank == 0) print_plan(program, options, with);
    with.communicator->finish();
    return 0;
  }
  train::train(options, std::move(with));
  if (rank != 0) return 0;
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);  // before the limit is measured, which holds a second model
  const double most = limit(config, program, *backend);
  fmt::print(
      "{{\"event\":\"bench\",\"model\":\"{}\",\"batch\":{},\"ranks\":{},\"threads\":{},"
      "\"best\":{:.1f},\"median\":{:.1f},\"limit\":{:.1f},\"peakMemoryMb\":{:.0f},"
      "\"parameters\":{},\"samples\":{}}}\n",
      config.model_file.empty() ? word(config.model) : "modelFile", config.batch_size,
      recorder.info().world_size, options.threads, recorder.best(), recorder.median(),
      most * recorder.info().world_size, static_cast<double>(usage.ru_maxrss) / 1024,
      recorder.info().parameters, recorder.info().training_samples);
  return 0;
}

}  // namespace coxswain
