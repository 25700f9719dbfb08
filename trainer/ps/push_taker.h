#pragma once

#include <cstdint>
#include <span>

#include "trainer/ps/shard.h"

namespace coxswain::ps {

// Value. A part of one block of a step's gradients, on its way from a worker.
struct Push {
  int worker = 0;
  std::int64_t step = 0;
  int part = 0;             // as the ReductionPlan numbers them; without meaning in async
  std::int64_t offset = 0;  // of the block, in the flat buffer
  std::int64_t length = 0;  // floats
};

// Whom a server gives what workers push, whichever way they train.
class PushTaker {
 public:
  virtual ~PushTaker() = default;
  virtual Shard& shard() = 0;

  enum class Verdict { kTake, kWait, kIgnore };
  struct Answer {
    Verdict verdict = Verdict::kIgnore;
    std::span<float> memory = {};  // kTake: for the floats
  };
  // Throws Error(71) for what no worker of this job pushes. Until received() it says the same
  // again.
  virtual Answer offer(const Push& push) = 0;
  virtual void received(const Push& push) = 0;
};

}  // namespace coxswain::ps
