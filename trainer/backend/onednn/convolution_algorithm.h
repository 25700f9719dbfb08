#pragma once

#include <optional>

#include "trainer/backend/algorithms.h"
#include "trainer/backend/onednn/lanes_convolution.h"
#include "trainer/backend/onednn/layer_descriptors.h"
#include "trainer/contract/words.h"

namespace coxswain::backend::onednn {

enum class ConvAlgorithm { kDirect, kWinograd, kLanes };
constexpr Words<ConvAlgorithm, 3> words_of(ConvAlgorithm) {
  return {{{ConvAlgorithm::kDirect, "direct"},
           {ConvAlgorithm::kWinograd, "winograd"},
           {ConvAlgorithm::kLanes, "lanes"}}};
}

// The node as lanes_convolution.h does it, where it can: a rule of shapes and instructions alone.
// Its max-pool then runs in the same order.
std::optional<LanesConvolution> lanes_convolution(const graph::Program& program, int node);

// Of the layers that can be computed in several ways. The first is the fastest by a rule of shapes
// and instructions, so that the same job on the same kind of CPU gives the same bits.
AlgorithmChoices convolution_choices(const graph::Program& program, bool winograd);

// What the options name for the layer, if it is one of its choices, else the first of these.
ConvAlgorithm algorithm_of(const LayerSetting& setting);

}  // namespace coxswain::backend::onednn
