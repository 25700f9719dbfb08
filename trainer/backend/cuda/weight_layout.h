#pragma once

#include <optional>
#include <span>
#include <string>

#include "trainer/graph/program.h"
#include "trainer/tensor/parameter_layout.h"

namespace coxswain::backend::cuda {

// Value. A weight as (K, C, cells) or, on the device, as (K, cells, C): what a kernel reads in the
// order of (N, H, W, C) activations. Of a dense layer the cells are the pixels of its input.
struct WeightOrder {
  std::int64_t outputs = 0;
  std::int64_t channels = 0;
  std::int64_t cells = 0;
};

// Nothing where both orders are one.
std::optional<WeightOrder> weight_order(const graph::Graph& graph,
                                        const graph::Parameter& parameter);

// As a segment's layout: "hwc:20"; and back.
std::string to_layout(const WeightOrder& order);
std::optional<WeightOrder> order_of(const tensor::Segment& segment);  // nothing: canonical

// (outer, a, b) -> (outer, b, a)
void transpose(std::span<const float> from, std::span<float> to, std::int64_t a, std::int64_t b);

}  // namespace coxswain::backend::cuda
