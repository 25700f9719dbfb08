#include "trainer/backend/cuda/cuda_executable.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/cuda/weight_layout.h"
#include "trainer/contract/error.h"
#include "trainer/tensor/device_span.h"
#include "trainer/tensor/pixels.h"

namespace coxswain::backend::cuda {

namespace {

// Words of a step.
enum : std::uint64_t { kLoad = 201, kRun, kWriteSums };

// Of an array on the host.
void to_floats(const Array& from, std::span<float> to) {
  with_type(from.type, [&]<class T>(std::type_identity<T>) {
    std::copy_n(from.as<const T>(), to.size(), to.begin());
  });
}

void from_floats(std::span<const float> from, const Array& to) {
  with_type(to.type, [&]<class T>(std::type_identity<T>) { std::ranges::copy(from, to.as<T>()); });
}

std::vector<int> last_reads_of(const graph::Program& program) {
  std::vector<int> last(program.edges.size(), -1);
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    for (const int edge : program.steps[s].reads)
      last[static_cast<std::size_t>(edge)] = static_cast<int>(s);
  }
  return last;
}

// Where the parts of a batch lie in one block of bytes; each at a multiple of 8.
struct Places {
  std::size_t inputs = 0;
  std::size_t sample_ids;
  std::size_t labels;
  std::size_t partners;
  std::size_t shares;
  std::size_t table;
  std::size_t bytes;
  std::size_t size;

  explicit Places(const tensor::Shape& images) {
    const auto rows = static_cast<std::size_t>(images.n);
    sample_ids = inputs + sizeof(StepInputs);
    labels = sample_ids + rows * sizeof(std::int64_t);
    partners = labels + padded(rows * sizeof(std::int32_t));
    shares = partners + padded(rows * sizeof(std::int32_t));
    table = shares + padded(rows * sizeof(float));
    bytes = table + static_cast<std::size_t>(images.c * tensor::kPixelValues) * sizeof(float);
    size = bytes + static_cast<std::size_t>(images.elements());
  }

 private:
  static std::size_t padded(std::size_t length) { return (length + 7) / 8 * 8; }
};

void pack(const Batch& batch, const Places& places, std::byte* to) {
  const StepInputs inputs{batch.seed, batch.epoch, batch.valid, batch.global_count};
  std::memcpy(to + places.inputs, &inputs, sizeof(inputs));
  const auto put = [&](std::size_t place, const auto& span) {
    std::memcpy(to + place, span.data(), span.size_bytes());
  };
  put(places.sample_ids, batch.sample_ids);
  put(places.labels, batch.labels);
  const bool mixed = !batch.shares.empty();
  put(places.partners, mixed ? batch.partner_labels : batch.labels);
  const std::vector<float> all(mixed ? 0 : batch.labels.size(), 1.0F);
  put(places.shares, mixed ? batch.shares : std::span(all));
  put(places.table, batch.images.table);
  put(places.bytes, batch.images.bytes);
}

DeviceBatch unpacked(const Places& places, std::byte* at) {
  return {.inputs = reinterpret_cast<const StepInputs*>(at + places.inputs),
          .sample_ids = reinterpret_cast<const std::int64_t*>(at + places.sample_ids),
          .targets = {reinterpret_cast<const std::int32_t*>(at + places.labels),
                      reinterpret_cast<const std::int32_t*>(at + places.partners),
                      reinterpret_cast<const float*>(at + places.shares)},
          .bytes = reinterpret_cast<const std::uint8_t*>(at + places.bytes),
          .table = reinterpret_cast<const float*>(at + places.table)};
}

}  // namespace

CudaExecutable::CudaExecutable(Shared& shared, const graph::Program& program,
                               Parameters& parameters)
    : shared_(shared),
      program_(program),
      input_(Places(program.graph.input().shape).size, "a batch"),
      sums_(sizeof(DeviceSums), "a loss"),
      batch_(unpacked(Places(program.graph.input().shape), input_.data())),
      last_reads_(last_reads_of(program)) {
  record(parameters);
  shared_.arena.reserve(tape_.finish());
}

void CudaExecutable::record(Parameters& parameters) {
  Recording recording{.program = program_,
                      .parameters = parameters,
                      .products = shared_.products,
                      .algorithms = shared_.algorithms,
                      .queue = shared_.queue,
                      .tape = tape_,
                      .batch = batch_,
                      .ranks = ranks_,
                      .sums = reinterpret_cast<DeviceSums*>(sums_.data()),
                      .edges = {},
                      .moments = std::vector<int>(program_.graph.nodes.size(), -1)};
  for (int edge = 0; edge < std::ssize(program_.edges); ++edge)
    recording.edges.push_back(tape_.new_array(shape_of(edge).elements(), type_of(program_, edge)));
  tape_.touch(recording.edges[0]);
  for (const graph::Step& step : program_.steps) record_step(recording, step);
  edges_ = std::move(recording.edges);
}

void CudaExecutable::bind() {
  if (bound_generation_ == shared_.arena.generation()) return;
  tape_.bind(shared_.arena.data());
  bound_generation_ = shared_.arena.generation();
}

void CudaExecutable::load(const Batch& batch) {
  check(program_, batch);
  bind();
  next_step_ = 0;
  const tensor::Shape& shape = shape_of(0);
  const Places places(shape);
  ranks_ = batch.ranks;
  const bool enqueues = asks(kLoad, std::bit_cast<std::uint64_t>(ranks_));
  pack(batch, places, shared_.steps.take(places.size));
  shared_.steps.send(input_.data());
  if (!enqueues) return;
  normalise(shared_.queue, batch_.bytes, batch_.table, shape.n * shape.h * shape.w, shape.c,
            array_of(0));
}

bool CudaExecutable::asks(std::uint64_t what, std::uint64_t of) const {
  return shared_.steps.asks({what, std::bit_cast<std::uint64_t>(this), of});
}

void CudaExecutable::run(int step_index) {
  next_step_ = step_index + 1;
  if (asks(kRun, static_cast<std::uint64_t>(step_index))) tape_.run(step_index);
}

LossSums CudaExecutable::sums() const {
  const cudaStream_t stream = shared_.queue.stream;
  check(cudaMemcpyAsync(host_sums_.data(), sums_.data(), sizeof(DeviceSums), cudaMemcpyDeviceToHost,
                        stream),
        "bringing a loss to the host");
  check(cudaStreamSynchronize(stream), "waiting for a loss");
  DeviceSums sums;
  std::memcpy(&sums, host_sums_.data(), sizeof(sums));
  return {sums.loss, sums.correct, sums.correct_top5, sums.samples};
}

void CudaExecutable::write_sums(const tensor::Slice& control) const {
  const auto to = std::bit_cast<std::uint64_t>(tensor::device_span(control).data());
  if (!asks(kWriteSums, to)) return;
  cuda::write_sums(shared_.queue, reinterpret_cast<const DeviceSums*>(sums_.data()),
                   tensor::device_span(control).data());
}

std::vector<float> CudaExecutable::fetch(int edge) {
  const tensor::Shape& shape = shape_of(edge);
  const Array from = array_of(edge);
  std::vector<float> stored(static_cast<std::size_t>(shape.elements()));
  const PinnedMemory host(stored.size() * static_cast<std::size_t>(tensor::size_of(from.type)));
  const cudaStream_t stream = shared_.queue.stream;
  check(cudaMemcpyAsync(host.data(), from.data, host.size(), cudaMemcpyDeviceToHost, stream),
        "bringing an edge to the host");
  check(cudaStreamSynchronize(stream), "waiting for an edge");
  to_floats({host.data(), from.type}, stored);
  std::vector<float> values(stored.size());
  transpose(stored, values, shape.h * shape.w, shape.c);
  return values;
}

void CudaExecutable::store(int edge, std::span<const float> values) {
  bind();
  if (next_step_ > last_reads_[static_cast<std::size_t>(edge)]) return;
  const tensor::Shape& shape = shape_of(edge);
  const Array to = array_of(edge);
  std::vector<float> stored(values.size());
  transpose(values, stored, shape.c, shape.h * shape.w);
  const PinnedMemory host(stored.size() * static_cast<std::size_t>(tensor::size_of(to.type)));
  from_floats(stored, {host.data(), to.type});
  const cudaStream_t stream = shared_.queue.stream;
  check(cudaMemcpyAsync(to.data, host.data(), host.size(), cudaMemcpyHostToDevice, stream),
        "copying an edge to the device");
}

}  // namespace coxswain::backend::cuda
