#pragma once

#include "trainer/compress/balance.h"
#include "trainer/compress/block_encoder.h"
#include "trainer/ps/client_runner.h"
#include "trainer/ps/sync_client.h"

namespace coxswain::ps {

// Resource. A SyncClient on a thread of its own, which encodes what is pushed, too; see
// ClientRunner.
class ClientThread {
 public:
  ClientThread(const net::NetworkOptions& network, const ClientOptions& options, const Plan& plan,
               const WorkerArrays& arrays, const compress::Codec& codec)
      : encoder_(plan.layout, plan.map.block(), codec),
        client_(options, plan, arrays),
        runner_(network, client_) {}

  void await_servers();
  void hand_over(std::int64_t step, std::int64_t update_count);  // until they have it
  void begin(std::int64_t step, const std::optional<optim::UpdateStep>& terms);
  // They stay as they are until finish_step() has returned.
  void push(std::int64_t offset, int part, std::span<const float> gradients);
  backend::ControlFloats finish_step();  // until the weights are there
  void fetch_slots();                    // until they are there

  // Between steps.
  compress::BlockEncoder& encoder() { return encoder_; }
  const compress::BlockEncoder& encoder() const { return encoder_; }
  // From now on, or no longer; what was measured so far.
  void measure(bool is_on) { is_measured_ = is_on; }
  const compress::Measured& measured() const { return measured_; }

 private:
  void await_all();
  void await_weights();

  // Of both threads, in turn.
  compress::BlockEncoder encoder_;
  bool is_measured_ = false;
  compress::Measured measured_;
  SyncClient client_;
  ClientRunner runner_;
};

}  // namespace coxswain::ps
