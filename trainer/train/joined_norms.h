#pragma once

#include <cstdint>
#include <map>

#include "trainer/backend/executable.h"
#include "trainer/comm/communicator.h"
#include "trainer/data/sampler.h"
#include "trainer/tensor/memory.h"
#include "trainer/train/step_plan.h"

// batchNorm: sync.
namespace coxswain::train {

// Resource. What ranks give to each other in the midst of a pass, in the memory that they compute
// in. Throws comm::PeerLost.
class RankGather final : public backend::AllGather {
 public:
  RankGather(comm::Communicator& communicator, tensor::Memory& memory)
      : communicator_(communicator), memory_(memory) {}
  tensor::Slice gather(const tensor::Slice& own) override;

 private:
  comm::Communicator& communicator_;
  tensor::Memory& memory_;
  std::map<std::int64_t, tensor::Buffer> rooms_;  // by size; all kept: recorded steps name them
};

// Throws Error (65) where a rank would have nothing to give, in a step that leaves it without
// samples: the others would wait for it.
void require_samples_on_all(const StepCut& cut, const data::EpochOrder& order);

}  // namespace coxswain::train
