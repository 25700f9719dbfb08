#pragma once

#include <cstdint>
#include <span>

#include "trainer/graph/graph.h"

// Loops over whole tensors in memory order, padding included: their operands share one layout.
namespace coxswain::backend::onednn {

using graph::Activation;
using tensor::DataType;

// sum = a + b, then relu where wanted. `sum` may be `a` or `b`.
void add_tensors(DataType type, void* sum, const void* a, const void* b, bool relu,
                 std::int64_t count);

// sum = (parts[0] + parts[1] + ...) times the activation's derivative at `output` (null for kNone),
// added in float32 and rounded once. `sum` may be any of the parts.
void join_gradients(DataType type, void* sum, std::span<const void* const> parts,
                    const void* output, Activation activation, std::int64_t count);

// y = kept ? x * scale : 0. Where the mask is padding, so is x. `y` may be `x`.
void apply_mask(DataType type, void* y, const void* x, const std::uint8_t* kept, float scale,
                std::int64_t count);

// Value. (count, cells, channels): channels lie side by side, rows and columns around them.
struct Planes {
  std::int64_t count = 0;
  std::int64_t cells = 0;
  std::int64_t channels = 0;
};

// products = values * factors; these are of each cell, or (count, channels).
void multiply(DataType type, void* products, const void* values, const void* factors,
              const Planes& planes, bool of_cells);

// sums (count, channels) = a * b summed over the cells, in float64.
void sum_products(DataType type, void* sums, const void* a, const void* b, const Planes& planes);

// Rounds each to fp16, in place.
void round_to_halves(float* values, std::int64_t count);

}  // namespace coxswain::backend::onednn
