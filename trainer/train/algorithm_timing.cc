#include "trainer/train/algorithm_timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <span>

#include "trainer/train/model_state.h"

namespace coxswain::train {

namespace {

using backend::AlgorithmChoices;
using backend::Algorithms;
using backend::AlgorithmTimes;

constexpr double kWorthwhile = 0.97;      // of a layer's time with the device's own choice
constexpr double kWorthwhileStep = 0.99;  // of a step's
constexpr double kPassSeconds = 0.25;     // of steps with one choice
constexpr int kLeastPasses = 2;
constexpr int kMostPasses = 20;
constexpr double kDeviceSeconds = 30;  // far from the deadline of the ranks that wait meanwhile

Algorithms variant(const AlgorithmChoices& choices, std::size_t index) {
  Algorithms result;
  for (const auto& [layer, names] : choices)
    result[layer] = names[std::min(index, names.size() - 1)];
  return result;
}

// For each node the layer that accounts for its steps: the nearest one before it that has a choice,
// since whoever reads a layer pays for the order that it writes in. Empty: none.
std::vector<std::string> accounts_of(const graph::Program& program,
                                     const AlgorithmChoices& choices) {
  std::vector<std::string> accounts;
  std::string last;
  for (const graph::Node& node : program.graph.nodes) {
    if (choices.contains(node.name)) last = node.name;
    accounts.push_back(last);
  }
  return accounts;
}

// Resource. The program's training step over rows of one colour.
class Passes {
 public:
  Passes(const graph::Program& program, const TrainOptions& options, const Collaborators& with)
      : program_(program), with_(with) {
    parameters_ =
        with.backend.make_parameters(with.backend.layout(program, backend::LayoutKind::kNative), 0);
    initialise(program, options.seed, with.backend, *parameters_);
    executable_ = with.backend.prepare(program, *parameters_);
    executable_->parameters_changed();
    const tensor::Shape& input = program.graph.input().shape;
    images_.resize(static_cast<std::size_t>(input.elements()));
    table_.assign(static_cast<std::size_t>(input.c * tensor::kPixelValues), 0.5F);
    labels_.assign(static_cast<std::size_t>(input.n), 0);
    ids_.assign(static_cast<std::size_t>(input.n), 0);
  }

  // By step of the program, the least of several times.
  std::vector<double> seconds() {
    std::vector<double> least(program_.steps.size(), std::numeric_limits<double>::max());
    double sum = 0;
    for (int i = 0; i < kLeastPasses || (sum < kPassSeconds && i < kMostPasses); ++i) {
      executable_->load({{images_, table_}, labels_, ids_, 0, 0, std::ssize(labels_), 1});
      for (std::size_t step = 0; step < least.size(); ++step) {
        const auto begin = with_.now();
        executable_->run(static_cast<int>(step));
        const double took = std::chrono::duration<double>(with_.now() - begin).count();
        least[step] = std::min(least[step], took);
        sum += took;
      }
    }
    return least;
  }

 private:
  const graph::Program& program_;
  const Collaborators& with_;
  std::unique_ptr<backend::Parameters> parameters_;
  std::unique_ptr<backend::Executable> executable_;
  std::vector<std::uint8_t> images_;
  std::vector<float> table_;
  std::vector<std::int32_t> labels_;
  std::vector<std::int64_t> ids_;
};

std::vector<double> time_steps(const Algorithms& algorithms, const graph::Program& program,
                               const TrainOptions& options, const Collaborators& with) {
  with.backend.use(algorithms);
  return Passes(program, options, with).seconds();
}

double sum_of(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

double seconds_since(std::chrono::steady_clock::time_point begin, const Collaborators& with) {
  return std::chrono::duration<double>(with.now() - begin).count();
}

// What all of them take in a step: each its own choice, or that of `algorithms`.
double seconds_with(const Algorithms& algorithms, const AlgorithmTimes& times) {
  double sum = 0;
  for (const auto& [name, tried] : times) {
    const auto chosen = algorithms.find(name);
    const auto taken = std::ranges::find_if(tried, [&](const backend::TimedAlgorithm& one) {
      return chosen != algorithms.end() && one.name == chosen->second;
    });
    sum += (taken == tried.end() ? tried.front() : *taken).seconds;
  }
  return sum;
}

Algorithms faster_on_device(const AlgorithmTimes& times, double took,
                            std::vector<std::string>& notes) {
  Algorithms faster = faster_algorithms(times);
  const double share = seconds_with(faster, times) / seconds_with({}, times);
  const std::string found = faster.empty()
                                ? "the usual ones are the fastest"
                                : fmt::format("with {} others they take {:.0f} % of their time",
                                              faster.size(), 100 * share);
  notes.push_back(fmt::format("timed the engines of {} convolutions in {:.1f} s: {}", times.size(),
                              took, found));
  return faster;
}

// Pass i is with the i-th algorithm of each layer, or with its last.
AlgorithmTimes time_on_host(const AlgorithmChoices& choices, const graph::Program& program,
                            const TrainOptions& options, const Collaborators& with, double& own) {
  const std::vector<std::string> accounts = accounts_of(program, choices);
  std::size_t variants = 0;
  for (const auto& [layer, names] : choices) variants = std::max(variants, names.size());
  AlgorithmTimes times;
  for (std::size_t i = 0; i < variants; ++i) {
    for (const auto& [layer, names] : choices)
      if (i < names.size()) times[layer].push_back({names[i]});
    const std::vector<double> seconds = time_steps(variant(choices, i), program, options, with);
    if (i == 0) own = sum_of(seconds);
    for (std::size_t step = 0; step < seconds.size(); ++step) {
      const auto found = times.find(accounts[static_cast<std::size_t>(program.steps[step].node)]);
      if (found != times.end() && i < found->second.size())
        found->second[i].seconds += seconds[step];
    }
  }
  return times;
}

}  // namespace

Algorithms faster_algorithms(const AlgorithmTimes& times) {
  Algorithms faster;
  for (const auto& [layer, tried] : times) {
    double least = kWorthwhile * tried.front().seconds;
    for (const backend::TimedAlgorithm& one : std::span(tried).subspan(1)) {
      if (one.seconds >= least) continue;
      least = one.seconds;
      faster[layer] = one.name;
    }
  }
  return faster;
}

AlgorithmTimes algorithm_times(const graph::Program& program, const TrainOptions& options,
                               const Collaborators& with) {
  if (auto times = with.backend.time_algorithms(program, [] { return true; })) return *times;
  double own = 0;
  return time_on_host(with.backend.algorithm_choices(program), program, options, with, own);
}

ChosenAlgorithms time_algorithms(const graph::Program& program, const TrainOptions& options,
                                 const Collaborators& with, std::vector<std::string>& notes) {
  const auto begin = with.now();
  const auto keep_on = [&] { return seconds_since(begin, with) < kDeviceSeconds; };
  if (const auto times = with.backend.time_algorithms(program, keep_on)) {
    if (times->empty()) return {};
    return {faster_on_device(*times, seconds_since(begin, with), notes)};
  }
  const AlgorithmChoices choices = with.backend.algorithm_choices(program);
  if (choices.empty()) return {};
  double own = 0;
  Algorithms faster = faster_algorithms(time_on_host(choices, program, options, with, own));
  double best = own;
  if (!faster.empty()) best = sum_of(time_steps(faster, program, options, with));
  if (best > kWorthwhileStep * own) faster.clear();
  std::string found = "the usual ones are the fastest";
  if (!faster.empty()) {
    found = fmt::format("a step takes {:.0f} % of its time with", 100 * best / own);
    for (const auto& [layer, name] : faster) found += fmt::format(" {} {},", layer, name);
    found.pop_back();
  }
  notes.push_back(fmt::format("timed the algorithms of {} layers in {:.1f} s: {}", choices.size(),
                              seconds_since(begin, with), found));
  return {faster, faster.empty() ? own : best};
}

void compare_with_float32(const graph::Graph& graph, const TrainOptions& options,
                          const Collaborators& with, std::optional<double> step_seconds,
                          std::vector<std::string>& notes) {
  const auto seconds = [&](Precision precision) {
    const graph::Program program =
        graph::freeze(graph::compile(graph, options.batch_size, precision, graph::Mode::kTraining),
                      options.freeze);
    return sum_of(Passes(program, options, with).seconds());
  };
  if (!step_seconds) step_seconds = seconds(Precision::kBf16);
  const double share = *step_seconds / seconds(Precision::kFp32);
  if (share <= 1) return;
  notes.push_back(fmt::format(
      "precision bf16: this CPU takes {:.2f} times as long for a step as in fp32", share));
}

}  // namespace coxswain::train
