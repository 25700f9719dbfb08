#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trainer/compress/balance.h"
#include "trainer/compress/block_encoder.h"
#include "trainer/compress/residual_watch.h"
#include "trainer/tensor/parameter_layout.h"

namespace coxswain::train {

// PURE: what rank 0 says of the codec of the gradients that it sends.

// The key that asked for it: "communication.compression"
std::string_view key_of(const compress::Codec& codec);
// "2bit, threshold 0.01", "fp16, one of 4 parts a step"
std::string describe(const compress::Codec& codec);
// Before the first step; bytes of one.
std::vector<std::string> notes_of(const compress::Codec& codec,
                                  const compress::BlockEncoder& encoder);
std::string note_of(const compress::Codec& codec, std::int64_t bytes, std::int64_t plain_bytes);
// Of one that does not pay. `is_left`: gradients are sent without it from now on.
std::string warning_of(const compress::Codec& codec, const compress::Balance& balance,
                       bool is_left);
// Of one that leaves out too much.
std::string warning_of(const compress::Codec& codec, std::int64_t step);

// Value. What rank 0 thinks of its codec, asked after every step of this start: whether it takes
// more time than it spares, and whether what it leaves out piles up.
class PushJudge {
 public:
  // `may_leave`: one that does not pay is given up.
  PushJudge(const compress::Codec& codec, bool may_leave) : codec_(codec), may_leave_(may_leave) {}

  // What is looked at when it is needed: what was measured, and the norms of a step.
  struct Evidence {
    std::function<compress::Measured()> measured;
    std::function<double()> residuals;
    std::function<double()> gradients;
  };
  struct Opinion {
    std::string warning;
    bool leaves = false;
  };
  bool measures() const {
    return steps_ >= kWarmUp && steps_ < kWarmUp + kMeasured;
  }  // the next one
  Opinion after(std::int64_t step, const Evidence& evidence);

 private:
  static constexpr std::int64_t kWarmUp = 2, kMeasured = 20;

  compress::Codec codec_;
  bool may_leave_;
  std::int64_t steps_ = 0;
  compress::ResidualWatch watch_;
};

// The Euclidean norm of what is trained.
double norm_of(const tensor::ParameterLayout& layout, std::span<const float> flat);

}  // namespace coxswain::train
