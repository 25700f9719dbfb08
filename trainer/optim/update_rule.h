#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/options/options.h"
#include "trainer/tensor/parameter_layout.h"

namespace coxswain::optim {

// Value. What a step does to the weights, but for what changes from step to step.
struct UpdateRule {
  OptimizerKind kind = OptimizerKind::kSgd;
  MomentumForm form = MomentumForm::kPyTorch;
  DecayScope decay_scope = DecayScope::kAll;
  float weight_decay = 0;
  bool centered = false;            // RMSProp
  float beta1 = 0.9F;               // Muon: of what is no matrix, and follows AdamW
  float beta2 = 0.999F;             // Adam (Kingma & Ba 2015); rho of RMSProp and AdaDelta
  float epsilon = 1e-8F;            // in the divisor
  float eta = 0.001F;               // LARS
  float statistic_momentum = 0.1F;  // running = (1-m) running + m batch
  float clip_norm = 0;              // of all gradients together; 0: as long as they are
  float clip_value = std::numeric_limits<float>::infinity();
  float ema_decay = 0;          // of the weights' average; 0: none is kept
  bool rounds_to_half = false;  // weights are fp16 after each step
  bool operator==(const UpdateRule&) const = default;
};

// Value. What differs between two steps.
struct UpdateStep {
  float lr = 0;
  float momentum = 0;             // beta1 for Adam, AdamW; schedules may cycle it
  std::int64_t update_count = 1;  // 1 for the first update: Adam's bias correction
  float statistic_parts = 1;      // parts whose BatchNorm statistics were summed
  float gradient_factor = 1;      // clipping by norm
};

// The slots that a rule keeps beside the weights, by their names in a checkpoint (PyTorch's words),
// in the order in which its formula takes them. Momentum that is 0 has none. Beside them the
// weights' average, which begins as they do.
inline constexpr std::size_t kMostSlots = 4;
inline constexpr std::string_view kAverageSlot = "ema";  // the last
std::vector<std::string_view> slot_names(const UpdateRule& rule, bool has_momentum);

bool decays(DecayScope scope, tensor::SegmentKind kind);

// A part of one segment, and of what lies beside it: of one length, apart from slots that are not
// kept, which are empty.
struct SegmentPart {
  tensor::SegmentKind kind;
  std::span<float> weights;
  std::span<const float> gradients;
  std::array<std::span<float>, kMostSlots> slots;
  std::int64_t rows = 0;  // of a matrix, row after row: a weight's outputs; 0: it is none
};

// The same bits for any instruction set; zeros change nothing.
double sum_of_squares(std::span<const float> values);

// Applies one step to a part: a trainable one by the rule, or as plain SGD where it has no slots;
// statistics by their running average; frozen weights and the control segment not at all.
// Elementwise, without fused multiply-adds: any cut and any instruction set give the same bits, and
// zero padding stays zero. LARS, LAMB and Muon want the whole segment (is_layerwise).
void update(const UpdateRule& rule, const UpdateStep& step, const SegmentPart& part);

}  // namespace coxswain::optim
