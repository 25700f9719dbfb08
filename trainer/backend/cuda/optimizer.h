#pragma once

#include <deque>

#include "trainer/backend/cuda/cuda_executable.h"
#include "trainer/optim/lr_schedule.h"

namespace coxswain::backend::cuda {

// Resource. What Backend::update comes to on a device: a step is judged, and followed, where its
// gradients lie. A first step with other parameters or another rule takes memory, and is not
// recorded.
class Optimizer {
 public:
  explicit Optimizer(Shared& shared);
  ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  void update(const optim::UpdateRule& rule, const optim::LearningRate& rate, float statistic_parts,
              Parameters& parameters);

 private:
  struct Map;

  const Map& map_of(const Parameters& parameters, const optim::UpdateRule& rule);
  void follow(const optim::UpdateRule& rule, const Map& map, const Verdict* verdict,
              const FlatBuffer& buffer) const;

  Shared& shared_;
  DeviceMemory inputs_{sizeof(UpdateInputs), "the learning rate"};
  DeviceMemory verdict_{sizeof(Verdict), "the verdict on a step"};
  std::deque<Map> maps_;  // kept: recorded steps name them
};

}  // namespace coxswain::backend::cuda
