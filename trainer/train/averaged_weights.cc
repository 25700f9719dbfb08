#include "trainer/train/averaged_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/backend/host_update.h"

namespace coxswain::train {

void begin_average(const optim::UpdateRule& rule, const backend::Parameters& parameters) {
  if (rule.ema_decay == 0) return;
  parameters.memory().copy(parameters.weights(), parameters.slot(parameters.num_slots() - 1));
}

void AveragedWeights::exchange() {
  if (rule_.ema_decay == 0) return;
  backend::exchange_weights(parameters_, parameters_.num_slots() - 1);
  executables_.parameters_changed();
}

bool take_averages(checkpoint::Contents& contents) {
  bool taken = false;
  for (checkpoint::NamedTensor& weight : contents.model) {
    const auto average = std::ranges::find(contents.optimizer,
                                           fmt::format("{}.{}", optim::kAverageSlot, weight.name),
                                           &checkpoint::NamedTensor::name);
    if (average == contents.optimizer.end()) continue;
    if (average->dims != weight.dims) continue;
    weight.values.swap(average->values);
    taken = true;
  }
  return taken;
}

}  // namespace coxswain::train
