#pragma once

#include <memory>
#include <optional>

#include "trainer/ps/copied_server.h"
#include "trainer/ps/sync_server.h"

namespace coxswain::ps {

// Value. What synchronous training is, as the configuration says.
struct SyncOptions {
  comm::ReductionPlan reduction;
  optim::UpdateRule rule;
  int num_slots = 0;
  compress::Codec codec = {};                    // of the pushes
  std::int64_t window = std::int64_t{32} << 20;  // see SyncServer
};

// A server of synchronous training: what comes over its connections, to a SyncServer, and back.
//
// It talks to all others: any of them may hold the control segment, and so decide.
class SyncTraining : public CopiedServer, private SyncOutbox {
 public:
  SyncTraining(ServerOptions server, SyncOptions options)
      : CopiedServer(std::move(server), options.num_slots), options_(std::move(options)) {}

  std::int64_t step() const override { return machine_ ? machine_->step() : 0; }

 private:
  std::optional<std::span<std::byte>> place_of(Peer& peer, const Message& message) override;
  void take(Peer& peer, const Message& message) override;
  void worker_left(int worker) override;

  PushTaker* machine() override { return machine_.get(); }
  void make_machine(const Plan& plan) override;
  void start_machine(const Beginning& position, std::span<const std::byte> also) override;
  Beginning position() override;
  Bytes also() override;
  std::unique_ptr<Copy> make_copy(const Plan& plan, int server,
                                  const Beginning& beginning) override;
  void copy_holds(std::optional<std::int64_t> steps) override { machine_->copy_holds(steps); }
  void server_has_begun(int) override { machine_->tell_servers_again(); }

  void ready(std::int64_t step, bool finite) override;
  void decided(std::int64_t step, bool updated) override;
  void outcome(std::optional<int> worker, std::int64_t step, std::span<float> sums) override;
  void weights(std::optional<int> worker, std::int64_t step, const Piece& piece,
               std::span<float> floats) override;
  void has_room() override { resume_workers(); }
  void copy_sums(std::int64_t step, const Piece& piece, std::span<float> sums) override;
  void copy_commit(std::int64_t step, bool updated, const optim::UpdateStep& terms) override;

  const SyncOptions options_;
  std::unique_ptr<SyncServer> machine_;
  std::optional<compress::BlockForm> form_;  // with machine_
  Terms told_terms_{};            // of the last commit
};

}  // namespace coxswain::ps
