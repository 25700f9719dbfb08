#include "trainer/train/averaged_weights.h"

#include <fmt/format.h>

#include <algorithm>

namespace coxswain::train {

void begin_average(const optim::UpdateRule& rule, const backend::Parameters& parameters) {
  if (rule.ema_decay == 0) return;
  parameters.memory().copy(parameters.weights(), parameters.slot(parameters.num_slots() - 1));
}

void AveragedWeights::exchange() {
  if (rule_.ema_decay == 0) return;
  tensor::Memory& memory = parameters_.memory();
  const tensor::Buffer kept = memory.allocate(parameters_.layout().size());
  memory.copy(parameters_.weights(), kept.slice());
  for (const tensor::Segment& segment : parameters_.layout().segments) {
    if (!tensor::is_trainable(segment.kind)) continue;
    const tensor::Slice average = parameters_.slot(parameters_.num_slots() - 1, segment);
    memory.copy(average, parameters_.weights(segment));
    memory.copy(kept.slice().range(segment.offset, segment.stored), average);
  }
  executables_.parameters_changed();
}

namespace {

// Calls `visit` with each weight and its average; false: there is none.
template <class Visit>
bool for_each_average(checkpoint::Contents& contents, const Visit& visit) {
  bool found = false;
  for (checkpoint::NamedTensor& weight : contents.model) {
    const auto average = std::ranges::find(contents.optimizer,
                                           fmt::format("{}.{}", optim::kAverageSlot, weight.name),
                                           &checkpoint::NamedTensor::name);
    if (average == contents.optimizer.end() || average->dims != weight.dims) continue;
    visit(weight, *average);
    found = true;
  }
  return found;
}

}  // namespace

void begin_averages(checkpoint::Contents& contents) {
  for_each_average(contents,
                   [](const checkpoint::NamedTensor& weight, checkpoint::NamedTensor& average) {
                     average.values = weight.values;
                   });
}

bool take_averages(checkpoint::Contents& contents) {
  return for_each_average(contents,
                          [](checkpoint::NamedTensor& weight, checkpoint::NamedTensor& average) {
                            weight.values.swap(average.values);
                          });
}

}  // namespace coxswain::train
