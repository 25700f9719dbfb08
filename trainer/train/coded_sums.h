#pragma once

#include <string>

#include "trainer/backend/parameters.h"
#include "trainer/comm/block_codec.h"
#include "trainer/compress/block_encoder.h"
#include "trainer/train/push_judge.h"
#include "trainer/train/train_options.h"

namespace coxswain::train {

// Resource. How one rank writes gradients in an all-reduce, what that leaves out, and what rank 0
// thinks of it.
class CodedSums {
 public:
  // `parameters` outlive it. Throws Error (70) when they are not in the host's memory.
  CodedSums(const TrainOptions& options, const backend::Parameters& parameters);

  comm::BlockCodec& codec() { return codec_; }
  // Between steps.
  compress::BlockEncoder& encoder() { return encoder_; }
  const compress::BlockEncoder& encoder() const { return encoder_; }

  // What a byte of the plain gradients takes to be summed.
  void measured_network(double seconds_per_byte);
  // Once the step is summed and the update has judged it; it was the `step`-th. What the user
  // should know, on the rank that leads.
  std::string finish_step(std::int64_t step, bool leads);
  // Whether this rank wants no codec any more: to be told to all.
  bool asks_for_exact() const { return asks_for_exact_; }

 private:
  // On the communicator's thread while a sum is under way.
  class Codec final : public comm::BlockCodec {
   public:
    explicit Codec(CodedSums& sums) : sums_(sums) {}
    std::span<std::byte> bytes_of(std::int64_t offset, std::int64_t length) override;
    void encode(std::int64_t offset, std::span<const float> block) override;
    void decode(std::int64_t offset, std::span<const std::byte> bytes,
                std::span<float> block) override;

   private:
    CodedSums& sums_;
  };
  PushJudge::Evidence evidence();

  const backend::Parameters& parameters_;
  compress::BlockEncoder encoder_;
  Codec codec_;
  PushJudge judge_;
  bool is_measured_ = false;
  compress::Measured measured_;
  bool asks_for_exact_ = false;
};

}  // namespace coxswain::train
