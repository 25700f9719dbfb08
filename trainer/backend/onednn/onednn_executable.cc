#include "trainer/backend/onednn/onednn_executable.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "trainer/backend/onednn/vector_loops.h"
#include "trainer/contract/error.h"

namespace coxswain::backend::onednn {

namespace {

std::vector<int> last_reads_of(const graph::Program& program) {
  std::vector<int> last(program.edges.size(), -1);
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    for (const int edge : used_reads(program, program.steps[s])) {
      last[static_cast<std::size_t>(edge)] = static_cast<int>(s);
    }
  }
  return last;
}

}  // namespace

OneDnnExecutable::OneDnnExecutable(Shared& shared, const graph::Program& program,
                                   Parameters& parameters)
    : shared_(shared),
      program_(program),
      tape_(shared.engine),
      last_reads_(last_reads_of(program)) {
  record(parameters);
  shared_.arena.reserve(tape_.finish());
}

void OneDnnExecutable::record(Parameters& parameters) {
  Plan plan{.program = program_,
            .options = shared_.options,
            .layouts = shared_.layouts,
            .parameters = parameters,
            .state = state_,
            .tape = tape_,
            .edges = std::vector<Tensor>(program_.edges.size()),
            .last_reads = last_reads_,
            .kept = std::vector<std::any>(program_.graph.nodes.size()),
            .sums_alone = std::vector<const Step*>(program_.graph.nodes.size())};
  plan.edges[0] = tape_.new_tensor(plain(to_dims(program_.graph.input().shape), Type::f32));
  tape_.touch(plan.edges[0].buffer);
  for (const Step& step : program_.steps) {
    record_step(plan, step);
    ++plan.step;
  }
  edges_ = std::move(plan.edges);
  for (const Step* conv_data : plan.sums_alone) {
    if (conv_data != nullptr) left_out_ = conv_data->writes[0];
  }
}

void OneDnnExecutable::bind() {
  if (bound_generation_ == shared_.arena.generation()) return;
  tape_.bind(shared_.arena.data());
  bound_generation_ = shared_.arena.generation();
}

void OneDnnExecutable::load(const Batch& batch) {
  check(program_, batch);
  omp_set_num_threads(shared_.options.threads);  // of the calling thread
  bind();
  state_.batch = batch;
  state_.sums = {};
  next_step_ = 0;
  const tensor::Shape& shape = program_.graph.input().shape;
  const std::span images(tape_.addresses().at<float>(edges_[0].buffer),
                         static_cast<std::size_t>(shape.elements()));
  tensor::to_floats(batch.images, shape, images);
  // Who reads them multiplies in it.
  if (graph::narrow_type(program_.graph) == DataType::kFloat16)
    round_to_halves(images.data(), shape.elements());
}

void OneDnnExecutable::run(int step_index) {
  next_step_ = step_index + 1;
  tape_.run(step_index);
}

std::vector<float> OneDnnExecutable::fetch(int edge) {
  if (!state_.observed && edge == left_out_) {
    state_.observed = true;
    tape_.run(next_step_ - 1);
  }
  state_.observed = true;
  const tensor::Shape& shape = program_.edges[static_cast<std::size_t>(edge)].shape;
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  dnnl::memory canonical(plain(to_dims(shape), Type::f32), shared_.engine, values.data());
  dnnl::stream stream(shared_.engine);
  dnnl::memory from = edges_[static_cast<std::size_t>(edge)].memory;
  dnnl::reorder(from, canonical).execute(stream, from, canonical);
  stream.wait();
  return values;
}

void OneDnnExecutable::store(int edge, std::span<const float> values) {
  bind();
  state_.observed = true;
  if (next_step_ > last_reads_[static_cast<std::size_t>(edge)]) return;
  const tensor::Shape& shape = program_.edges[static_cast<std::size_t>(edge)].shape;
  std::vector<float> copy(values.begin(), values.end());
  dnnl::memory canonical(plain(to_dims(shape), Type::f32), shared_.engine, copy.data());
  dnnl::stream stream(shared_.engine);
  dnnl::memory to = edges_[static_cast<std::size_t>(edge)].memory;
  dnnl::reorder(canonical, to).execute(stream, canonical, to);
  stream.wait();
}

}  // namespace coxswain::backend::onednn
