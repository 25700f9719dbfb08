#pragma once

#include "trainer/backend/cuda/kernels/launch.h"
#include "trainer/optim/formulas.h"

// What updates do with one float of the flat buffer, for the kernels' own sources.
namespace coxswain::backend::cuda {

namespace {

[[maybe_unused]] __device__ bool is_trained(Change change) { return change >= Change::kDecayed; }

[[maybe_unused]] __device__ float decay_of(const optim::UpdateRule& rule, Change change) {
  return change == Change::kUndecayed ? 0 : rule.weight_decay;
}

// Of what is trained, where tensors have rates.
[[maybe_unused]] __device__ float rate_of(const FlatBuffer& buffer, std::int64_t i) {
  return buffer.rates[buffer.tensor_of[i / kGranule]];
}

// After a step, which the average follows.
[[maybe_unused]] __device__ void store_weight(const optim::UpdateRule& rule,
                                              const FlatBuffer& buffer, std::int64_t i,
                                              float weight) {
  if (rule.rounds_to_half) weight = Float16(weight);
  if (buffer.average != nullptr)
    buffer.average[i] = optim::moved(rule.ema_decay, buffer.average[i], weight);
  buffer.weights[i] = weight;
}

}  // namespace

}  // namespace coxswain::backend::cuda
