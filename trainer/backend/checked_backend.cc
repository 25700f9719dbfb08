#include "trainer/backend/checked_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "trainer/contract/error.h"
#include "trainer/graph/operations.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::backend {

namespace {

using graph::Op;
using graph::StepKind;
using graph::Tolerance;
using tensor::DataType;
using tensor::host_span;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr Tolerance kJoined{1e-6, 1e-6};  // of sums of a few values

Tolerance float_tolerance(StepKind kind, Op op) {
  if (kind == StepKind::kJoinGradients) return kJoined;
  const graph::Operation& row = graph::operation(op);
  return kind == StepKind::kForward ? row.forward : row.backward;
}

bool computes_narrow(const graph::Program& program, const graph::Step& step) {
  const auto is_narrow = [&](int edge) {
    return program.edges[at(edge)].type != DataType::kFloat32;
  };
  return std::ranges::any_of(step.reads, is_narrow) || std::ranges::any_of(step.writes, is_narrow);
}

// What is written is rounded, to 8 bits (bf16) or 11 (fp16), so neighbours differ by up to 2^-7 or
// 2^-10 of the value; gradients of parameters are float32, but stand on inputs that a backend may
// round at another place.
Tolerance tolerance_of(const graph::Program& program, const graph::Step& step) {
  const Tolerance exact = float_tolerance(step.kind, program.graph.nodes[at(step.node)].op);
  if (!computes_narrow(program, step)) return exact;
  const bool half = graph::narrow_type(program.graph) == DataType::kFloat16;
  const double neighbour = half ? 0x1.0p-10 : 0x1.0p-7;
  // What windows that overlap give to one place is added in the narrow type, rounded each time.
  const Op op = program.graph.nodes[at(step.node)].op;
  const bool adds_narrow = op == Op::kAvgPool && step.kind == StepKind::kBackwardData;
  return {exact.relative + neighbour, exact.of_largest + (adds_narrow ? neighbour : neighbour / 2),
          exact.outliers};
}

bool agree(double expected, double actual, double allowed) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  return expected == actual || std::abs(expected - actual) <= allowed;
}

double largest_finite(std::span<const float> values) {
  double largest = 0;
  for (const float value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  return largest;
}

// `what` says step and tensor: "step 7 backward-data of conv1, edge d(input)".
void compare(const std::string& what, const Tolerance& tolerance, std::span<const float> expected,
             std::span<const float> actual, double largest = 0) {
  const double floor = tolerance.of_largest * std::max(largest, largest_finite(expected));
  std::optional<std::size_t> first;
  std::size_t different = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double allowed = floor + tolerance.relative * std::abs(static_cast<double>(expected[i]));
    if (agree(expected[i], actual[i], allowed)) continue;
    if (!first) first = i;
    ++different;
  }
  if (!first ||
      static_cast<double>(different) <= tolerance.outliers * static_cast<double>(expected.size())) {
    return;
  }
  throw Error(
      ExitCode::kInternal,
      fmt::format("[backend] {}, element {}: the reference gives {}, the checked backend {} "
                  "({} of {} elements differ)",
                  what, *first, expected[*first], actual[*first], different, expected.size()));
}

// The two sides' parameters: the caller's and the other backend's own.
struct Pair {
  Backend& fast;
  const Parameters& reference_side;
  const Parameters& fast_side;

  // All but control.
  std::size_t segments() const { return reference_side.layout().segments.size() - 1; }
  const tensor::Segment& canonical(std::size_t i) const {
    return reference_side.layout().segments[i];
  }
  const tensor::Segment& stored(std::size_t i) const { return fast_side.layout().segments[i]; }

  std::vector<float> fetch(std::size_t i, const tensor::Slice& from) const {
    std::vector<float> values(static_cast<std::size_t>(canonical(i).elements()));
    fast.to_canonical(stored(i), fast_side.memory().snapshot(from)(), values);
    return values;
  }

  void copy(std::size_t i, const tensor::Slice& from, const tensor::Slice& to) const {
    std::vector<float> values(static_cast<std::size_t>(stored(i).stored));
    fast.from_canonical(stored(i), host_span(from), values);
    fast_side.memory().write(values, to);
  }

  void copy_weights() const {
    for (std::size_t i = 0; i < segments(); ++i) {
      copy(i, reference_side.weights(canonical(i)), fast_side.weights(stored(i)));
    }
  }

  void copy_gradients_and_slots() const {
    for (std::size_t i = 0; i < segments(); ++i) {
      copy(i, reference_side.gradients(canonical(i)), fast_side.gradients(stored(i)));
      for (int slot = 0; slot < reference_side.num_slots(); ++slot) {
        copy(i, reference_side.slot(slot, canonical(i)), fast_side.slot(slot, stored(i)));
      }
    }
  }

  // The verdict and the count of updates follow from it.
  void copy_control() const {
    const tensor::Segment& from = reference_side.layout().control();
    const tensor::Segment& to = fast_side.layout().control();
    fast_side.memory().write(host_span(reference_side.weights(from)), fast_side.weights(to));
    fast_side.memory().write(host_span(reference_side.gradients(from)), fast_side.gradients(to));
  }
};

// Resource. One program on both backends, over the two sides of the CheckedBackend that made it.
class CheckedExecutable : public Executable {
 public:
  CheckedExecutable(std::unique_ptr<Executable> reference, std::unique_ptr<Executable> fast,
                    const Pair& pair)
      : reference_(std::move(reference)), fast_(std::move(fast)), pair_(pair) {}

  const graph::Program& program() const override { return reference_->program(); }

  void load(const Batch& batch) override {
    if (weights_changed_) pair_.copy_weights();
    if (weights_changed_) fast_->parameters_changed();
    weights_changed_ = false;
    reference_->load(batch);
    fast_->load(batch);
  }

  void run(int index) override {
    const graph::Step& step = program().steps[at(index)];
    for (const int edge : step.reads) fast_->store(edge, reference_->fetch(edge));
    reference_->run(index);
    fast_->run(index);
    compare_step(index, step);
  }

  LossSums sums() const override { return reference_->sums(); }
  std::vector<float> fetch(int edge) override { return reference_->fetch(edge); }
  void store(int edge, std::span<const float> values) override { reference_->store(edge, values); }
  void parameters_changed() override {
    reference_->parameters_changed();
    weights_changed_ = true;
  }

 private:
  void compare_step(int index, const graph::Step& step) {
    const Tolerance tolerance = tolerance_of(program(), step);
    const std::string where = fmt::format("step {} {} of {}", index, name_of(step.kind),
                                          program().graph.nodes[at(step.node)].name);
    for (const int edge : step.writes) {
      compare(fmt::format("{}, edge {}", where, program().edges[at(edge)].name), tolerance,
              reference_->fetch(edge), fast_->fetch(edge));
    }
    // Of all that the step completes: a bias before a norm has a gradient of zero but for rounding.
    double largest = 0;
    for (const int p : step.completes) {
      largest = std::max(largest, largest_finite(expected_gradient(p)));
    }
    for (const int p : step.completes) compare_gradient(where, tolerance, p, largest);
    if (step.kind == StepKind::kForward && step.writes.empty()) {  // the loss
      compare_sums(where, tolerance);
    }
  }

  std::size_t segment_of(int parameter) const {
    return at(pair_.reference_side.layout().find(program().parameters[at(parameter)].name).value());
  }

  std::span<const float> expected_gradient(int parameter) const {
    return host_span(pair_.reference_side.gradients(pair_.canonical(segment_of(parameter))));
  }

  void compare_gradient(const std::string& where, const Tolerance& tolerance, int parameter,
                        double largest) {
    const std::size_t i = segment_of(parameter);
    compare(fmt::format("{}, gradient of {}", where, pair_.canonical(i).name), tolerance,
            expected_gradient(parameter),
            pair_.fetch(i, pair_.fast_side.gradients(pair_.stored(i))), largest);
  }

  void compare_sums(const std::string& where, const Tolerance& tolerance) {
    const LossSums expected = reference_->sums();
    const LossSums actual = fast_->sums();
    if (agree(expected.loss, actual.loss, tolerance.relative * std::abs(expected.loss)) &&
        expected.correct == actual.correct && expected.correct_top5 == actual.correct_top5 &&
        expected.samples == actual.samples) {
      return;
    }
    const auto text = [](const LossSums& s) {
      return fmt::format("loss {}, {} correct, {} in the first five, of {}", s.loss, s.correct,
                         s.correct_top5, s.samples);
    };
    throw Error(ExitCode::kInternal,
                fmt::format("[backend] {}: the reference gives {}; the checked backend {}", where,
                            text(expected), text(actual)));
  }

  std::unique_ptr<Executable> reference_;
  std::unique_ptr<Executable> fast_;
  Pair pair_;
  bool weights_changed_ = true;
};

// Resource. Owns both backends and the fast one's parameters.
class CheckedBackend : public Backend {
 public:
  CheckedBackend(std::unique_ptr<Backend> reference, std::unique_ptr<Backend> fast)
      : reference_(std::move(reference)), fast_(std::move(fast)) {}

  AlgorithmChoices algorithm_choices(const graph::Program& training) const override {
    return fast_->algorithm_choices(training);
  }
  std::optional<AlgorithmTimes> time_algorithms(const graph::Program& training,
                                                const KeepOn& keep_on) override {
    return fast_->time_algorithms(training, keep_on);
  }
  void use(const Algorithms& algorithms) override { fast_->use(algorithms); }
  std::string remark(const graph::Program& training) const override {
    return fast_->remark(training);
  }

  tensor::ParameterLayout layout(const graph::Program& training, LayoutKind) override {
    fast_layout_ = fast_->layout(training, LayoutKind::kNative);
    return reference_->layout(training, LayoutKind::kCanonical);
  }

  std::unique_ptr<Parameters> make_parameters(const tensor::ParameterLayout& layout,
                                              int num_slots) override {
    fast_parameters_ = fast_->make_parameters(fast_layout_, num_slots);
    return reference_->make_parameters(layout, num_slots);
  }

  std::unique_ptr<Executable> prepare(const graph::Program& program,
                                      Parameters& parameters) override {
    return std::make_unique<CheckedExecutable>(reference_->prepare(program, parameters),
                                               fast_->prepare(program, *fast_parameters_),
                                               Pair{*fast_, parameters, *fast_parameters_});
  }

  void to_canonical(const tensor::Segment& segment, std::span<const float> stored,
                    std::span<float> canonical) override {
    reference_->to_canonical(segment, stored, canonical);
  }

  void from_canonical(const tensor::Segment& segment, std::span<const float> canonical,
                      std::span<float> stored) override {
    reference_->from_canonical(segment, canonical, stored);
  }

  void update(const optim::UpdateRule& rule, const optim::LearningRate& rate, float statistic_parts,
              Parameters& parameters) override {
    const Pair pair{*fast_, parameters, *fast_parameters_};
    pair.copy_weights();
    pair.copy_gradients_and_slots();
    pair.copy_control();
    reference_->update(rule, rate, statistic_parts, parameters);
    fast_->update(rule, rate, statistic_parts, *fast_parameters_);
    const Tolerance tolerance{1e-6, 1e-6};
    for (std::size_t i = 0; i < pair.segments(); ++i) {
      compare("update of " + pair.canonical(i).name, tolerance,
              host_span(parameters.weights(pair.canonical(i))),
              pair.fetch(i, fast_parameters_->weights(pair.stored(i))));
    }
  }

  std::string fingerprint() const override { return "checked " + fast_->fingerprint(); }

 private:
  std::unique_ptr<Backend> reference_;
  std::unique_ptr<Backend> fast_;
  tensor::ParameterLayout fast_layout_;
  std::unique_ptr<Parameters> fast_parameters_;
};

}  // namespace

std::unique_ptr<Backend> make_checked_backend(std::unique_ptr<Backend> reference,
                                              std::unique_ptr<Backend> fast) {
  return std::make_unique<CheckedBackend>(std::move(reference), std::move(fast));
}

}  // namespace coxswain::backend
