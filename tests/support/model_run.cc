#include "tests/support/model_run.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "trainer/graph/initialise.h"
#include "trainer/graph/operations.h"
#include "trainer/tensor/host_span.h"
#include "trainer/tensor/philox.h"

namespace coxswain::test {

namespace {

constexpr std::uint32_t kImages = 1;
constexpr std::uint32_t kLabels = 2;
constexpr std::uint32_t kOffsets = 3;

std::uint32_t draw(std::uint64_t seed, std::uint32_t stream, std::size_t index) {
  const auto words = tensor::philox(seed, {0, 0, stream, static_cast<std::uint32_t>(index / 4)});
  return words[index % 4];
}

float uniform(std::uint64_t seed, std::uint32_t stream, std::size_t index) {  // in [-1, 1)
  return 2 * tensor::to_uniform(draw(seed, stream, index)) - 1;
}

// For evaluation too, so that both programs share one layout.
graph::Program training_program(const graph::Graph& model, const RunOptions& options) {
  return graph::compile(model, options.rows, options.precision, graph::Mode::kTraining);
}

}  // namespace

ModelRun::ModelRun(Backend& backend_used, const graph::Graph& model, const RunOptions& options)
    : on(backend_used),
      program(graph::compile(model, options.rows, options.precision, options.mode)),
      parameters(on.make_parameters(on.layout(training_program(model, options), options.layout),
                                    options.num_slots)) {
  std::size_t drawn = 0;
  for (const graph::Parameter& p : program.parameters) {
    const tensor::Segment& s = segment(p.name);
    std::vector<float> values(static_cast<std::size_t>(s.elements()));
    graph::initialise(p, options.seed, values);
    const bool plain =
        p.init.kind == graph::InitKind::kZero || p.init.kind == graph::InitKind::kOne;
    for (float& value : values) {
      if (plain) value += 0.25F * uniform(options.seed, kOffsets, drawn++);
    }
    std::vector<float> stored(static_cast<std::size_t>(s.stored));
    on.from_canonical(s, values, stored);
    parameters->memory().write(stored, parameters->weights(s));
  }
  executable = on.prepare(program, *parameters);

  const graph::Shape& input = program.graph.input().shape;
  table.resize(static_cast<std::size_t>(input.c * tensor::kPixelValues));
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = uniform(options.seed, kImages, i);
  for (std::int64_t i = 0; i < input.elements(); ++i) {
    const std::int64_t sample = i / input.per_sample();
    const std::int64_t pixel = i % input.per_sample() / input.c;
    bytes.push_back(static_cast<std::uint8_t>(167 * pixel + 31 * (i % input.c) + 89 * sample));
  }
  images.resize(bytes.size());
  tensor::to_floats({bytes, table}, input, images);
  const auto classes = static_cast<std::uint32_t>(program.graph.logits().shape.c);
  for (std::int64_t n = 0; n < options.rows; ++n) {
    const auto row = static_cast<std::size_t>(n);
    labels.push_back(static_cast<std::int32_t>(draw(options.seed, kLabels, row) % classes));
    sample_ids.push_back(100 + 7 * n);
  }
  batch = {.images = {bytes, table},
           .labels = labels,
           .sample_ids = sample_ids,
           .seed = options.seed,
           .epoch = 2,
           .valid = options.valid < 0 ? options.rows : options.valid,
           .global_count = 1};
}

void ModelRun::set_image(std::size_t index, float value) {
  const graph::Shape& input = program.graph.input().shape;
  const auto plane = static_cast<std::size_t>(input.h * input.w);
  const auto channels = static_cast<std::size_t>(input.c);
  const std::size_t channel = index / plane % channels;
  const std::size_t pixel = index / (plane * channels) * plane + index % plane;
  table[channel * 256 + bytes[pixel * channels + channel]] = value;
  tensor::to_floats({bytes, table}, input, images);
}

LossSums ModelRun::forward() {
  backend::forward(*executable, batch);
  return executable->sums();
}

std::span<float> ModelRun::weights(const std::string& name) {
  return tensor::host_span(parameters->weights(segment(name)));
}

void ModelRun::backward() {
  backend::backward(*executable, [](int) {});
}

const tensor::Segment& ModelRun::segment(const std::string& name) const {
  const auto index = parameters->layout().find(name);
  if (!index) throw std::out_of_range("no segment " + name);
  return parameters->layout().segments[static_cast<std::size_t>(*index)];
}

std::vector<float> ModelRun::gradients(const std::string& name) {
  const tensor::Segment& s = segment(name);
  std::vector<float> result(static_cast<std::size_t>(s.elements()));
  on.to_canonical(s, parameters->memory().snapshot(parameters->gradients(s))(), result);
  return result;
}

int edge_named(const graph::Program& program, const std::string& name) {
  const auto found = std::ranges::find(program.edges, name, &graph::Edge::name);
  if (found == program.edges.end()) throw std::out_of_range("no edge " + name);
  return static_cast<int>(found - program.edges.begin());
}

std::vector<std::string_view> operations_not_run(const std::vector<graph::Graph>& models) {
  std::set<graph::Op> forward{graph::Op::kInput};  // which has no steps
  std::set<graph::Op> backward{graph::Op::kInput};
  for (const graph::Graph& model : models) {
    const graph::Program program = training_program(model, {});
    for (const graph::Step& step : program.steps) {
      if (step.kind == graph::StepKind::kJoinGradients) continue;
      const bool first = step.kind == graph::StepKind::kForward;
      (first ? forward : backward)
          .insert(program.graph.nodes[static_cast<std::size_t>(step.node)].op);
    }
  }
  std::vector<std::string_view> result;
  for (const graph::Operation& row : graph::operations()) {
    const bool has_backward = row.passes_gradient || backward.contains(row.op);
    if (!forward.contains(row.op) || !has_backward) result.push_back(row.name);
  }
  return result;
}

}  // namespace coxswain::test
