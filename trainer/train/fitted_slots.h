#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/tensor/parameter_layout.h"

namespace coxswain::train {

// Makes a checkpoint's slots those of the rule that trains now, where a configuration changed that
// adds some or takes some away (momentum, centered, ema.decay): one that is new begins as in a new
// run, one that is kept no more goes, and `notes` says so. A slot that is there for some tensors
// alone is left for restore to refuse. Pure.
void fit_slots(const tensor::ParameterLayout& layout, std::span<const std::string_view> slot_names,
               checkpoint::Contents& contents, std::vector<std::string>& notes);

}  // namespace coxswain::train
