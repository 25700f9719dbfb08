#pragma once

#include "trainer/ps/client_runner.h"
#include "trainer/ps/sync_client.h"

namespace coxswain::ps {

// Resource. A SyncClient on a thread of its own; see ClientRunner.
class ClientThread {
 public:
  ClientThread(const net::NetworkOptions& network, const ClientOptions& options, const Plan& plan,
               const WorkerArrays& arrays)
      : client_(options, plan, arrays), runner_(network, client_) {}

  void await_servers();
  void hand_over(std::int64_t step, std::int64_t update_count);  // until they have it
  void begin(std::int64_t step, const std::optional<optim::UpdateStep>& terms);
  void push(const BlockPart& part);
  backend::ControlFloats finish_step();  // until the weights are there
  void fetch_slots();                    // until they are there

 private:
  void await_all();

  SyncClient client_;
  ClientRunner runner_;
};

}  // namespace coxswain::ps
