#pragma once

#include <memory>
#include <optional>

#include "trainer/ps/server.h"
#include "trainer/ps/sync_server.h"

namespace coxswain::ps {

// Value. What synchronous training is, as the configuration says.
struct SyncOptions {
  comm::ReductionPlan reduction;
  optim::UpdateRule rule;
  int num_slots = 0;
  std::int64_t window = std::int64_t{32} << 20;  // see SyncServer
};

// A server of synchronous training: what comes over its connections, to a SyncServer, and back. The
// first step waits for worker 0 to say what is trained and from where.
class SyncTraining : public Server, private SyncOutbox {
 public:
  SyncTraining(ServerOptions server, SyncOptions options)
      : Server(std::move(server)), options_(std::move(options)) {}

  bool has_begun() const override { return floats_missing_ == 0; }
  std::int64_t step() const { return machine_ ? machine_->step() : 0; }

 private:
  std::optional<std::span<std::byte>> place_of(Peer& peer, const Message& message) override;
  void take(Peer& peer, const Message& message) override;
  void worker_left(int worker) override;
  void server_joined(int server) override;

  std::optional<std::span<std::byte>> place_of_push(Peer& peer, const Message& message);
  std::span<float> state_of(const Peer& peer, const Message& message);
  void begin(const Beginning& beginning);
  void take_state(const Message& message);
  void send_slots(int worker, std::int64_t step);

  void ready(std::int64_t step, bool finite) override;
  void decided(std::int64_t step, bool updated) override;
  void outcome(std::optional<int> worker, std::int64_t step, std::span<float> sums) override;
  void weights(std::optional<int> worker, std::int64_t step, const Piece& piece,
               std::span<float> floats) override;
  void has_room() override { resume_workers(); }

  const SyncOptions options_;
  std::unique_ptr<SyncServer> machine_;
  std::optional<Beginning> beginning_;
  std::int64_t floats_missing_ = -1;  // of its state; -1: nothing is known
};

}  // namespace coxswain::ps
