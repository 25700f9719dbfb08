#include "trainer/backend/cuda/orthogonaliser.h"

#include <algorithm>

#include "trainer/optim/orthogonalise.h"

namespace coxswain::backend::cuda {

namespace {

constexpr const char* kMuon = "Muon's matrices";

// Value. A matrix and its smaller side's square.
struct Matrix {
  explicit Matrix(const tensor::Segment& segment)
      : first(segment.offset),
        rows(segment.dims[0]),
        columns(segment.elements() / rows),
        side(std::min(rows, columns)) {}

  std::int64_t first;  // float of the flat buffer
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t side;
  std::int64_t gram = 0;  // its first float
};

std::int64_t padded(std::int64_t floats) { return (floats + kGranule - 1) / kGranule * kGranule; }

std::vector<Matrix> matrices_of(const tensor::ParameterLayout& layout) {
  std::vector<Matrix> matrices;
  std::int64_t gram = 0;
  for (const tensor::Segment& segment : layout.segments) {
    if (!is_matrix(segment)) continue;
    matrices.emplace_back(segment).gram = gram;
    gram += padded(matrices.back().side * matrices.back().side);
  }
  return matrices;
}

DeviceMemory zeros(std::int64_t floats, const Queue& queue) {
  DeviceMemory memory(static_cast<std::size_t>(floats) * sizeof(float), kMuon);
  check(cudaMemsetAsync(memory.data(), 0, memory.size(), queue.stream), "clearing device memory");
  return memory;
}

float* floats(const DeviceMemory& memory) { return reinterpret_cast<float*>(memory.data()); }

}  // namespace

bool is_matrix(const tensor::Segment& segment) {
  return tensor::is_trainable(segment.kind) && segment.dims.size() > 1;
}

Orthogonaliser::Orthogonaliser(const tensor::ParameterLayout& layout, Products& products,
                               const Queue& queue)
    : size_(layout.size()), directions_(zeros(size_, queue)), moved_(zeros(size_, queue)) {
  const std::vector<Matrix> matrices = matrices_of(layout);
  for (const Matrix& m : matrices) grams_size_ = m.gram + padded(m.side * m.side);
  grams_ = zeros(grams_size_, queue);
  squares_ = zeros(grams_size_, queue);
  std::size_t workspace = 0;
  const auto add = [&](std::vector<Call>& calls, const Dense& dense, const Operands& operands) {
    calls.push_back({products.prepare(dense), operands});
    workspace = std::max(workspace, calls.back().product.workspace);
  };
  for (const Matrix& m : matrices) {
    float* const x = directions() + m.first;
    float* const moved = floats(moved_) + m.first;
    float* const gram = floats(grams_) + m.gram;
    float* const square = floats(squares_) + m.gram;
    Dense dense{.rows = m.rows, .in = m.columns, .out = m.side};
    const bool is_tall = m.rows > m.columns;  // gram = x' x, moved = x gram; or x x' and gram x
    dense.pass = is_tall ? Pass::kWeights : Pass::kForward;
    add(to_grams_, dense,
        is_tall ? Operands{.x = x, .w = gram, .y = x} : Operands{.x = x, .w = x, .y = gram});
    dense.pass = Pass::kData;
    add(to_moved_, dense, {.x = moved, .w = is_tall ? gram : x, .y = is_tall ? x : gram});
    add(to_squares_, {.pass = Pass::kData, .rows = m.side, .in = m.side, .out = m.side},
        {.x = square, .w = gram, .y = gram});
  }
  workspace_ = DeviceMemory(workspace, kMuon);
}

void Orthogonaliser::call(const std::vector<Call>& calls, const Queue& queue) const {
  for (const Call& call : calls) call.product.run(call.operands, workspace_.data(), queue);
}

void Orthogonaliser::run(const Queue& queue) const {
  using optim::NewtonSchulz;
  for (int step = 0; step < NewtonSchulz::kSteps; ++step) {
    call(to_grams_, queue);
    call(to_squares_, queue);
    combine(queue, floats(grams_), NewtonSchulz::kThird, floats(squares_), NewtonSchulz::kFifth,
            grams_size_);
    call(to_moved_, queue);
    combine(queue, floats(directions_), NewtonSchulz::kFirst, floats(moved_), 1, size_);
  }
}

}  // namespace coxswain::backend::cuda
