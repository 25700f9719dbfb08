#pragma once

#include <span>
#include <vector>

#include "trainer/backend/executable.h"
#include "trainer/comm/communicator.h"
#include "trainer/data/sampler.h"
#include "trainer/tensor/memory.h"
#include "trainer/train/step_plan.h"

// batchNorm: sync.
namespace coxswain::train {

// Resource. What ranks give to each other in the midst of a pass: a sum of what is zero but for
// each rank's own place, which is exact in any order. Throws comm::PeerLost.
class RankGather final : public backend::AllGather {
 public:
  explicit RankGather(comm::Communicator& communicator) : communicator_(communicator) {}
  std::span<const float> gather(std::span<const float> own) override;

 private:
  comm::Communicator& communicator_;
  tensor::HostMemory memory_;
  tensor::Buffer buffer_;
  std::vector<float> values_;
};

// Throws Error (65) where a rank would have nothing to give, in a step that leaves it without
// samples: the others would wait for it.
void require_samples_on_all(const StepCut& cut, const data::EpochOrder& order);

}  // namespace coxswain::train
