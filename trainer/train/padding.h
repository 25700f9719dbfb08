#pragma once

#include <span>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/compress/codec.h"
#include "trainer/train/buckets.h"

namespace coxswain::train {

// Where the flat buffer is no tensor's: between them, and in the device's inner orders. It is zero,
// and stays so as long as its gradients are.
std::vector<Range> padding_of(backend::Backend& backend, const tensor::ParameterLayout& layout);

// What of it must be cleared after a step, since a codec makes something of nothing: of 1bit, whose
// signs are never zero.
std::vector<Range> changed_padding(const compress::Codec& codec, backend::Backend& backend,
                                   const tensor::ParameterLayout& layout);
void clear(const std::vector<Range>& padding, std::span<float> flat);

}  // namespace coxswain::train
