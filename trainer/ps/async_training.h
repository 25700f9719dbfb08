#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "trainer/ps/async_server.h"
#include "trainer/ps/coordinator.h"
#include "trainer/ps/server.h"

namespace coxswain::ps {

// Value. What asynchronous training is, as the configuration says.
struct AsyncOptions {
  optim::UpdateRule rule;
  int num_slots = 0;
  compress::Codec codec = {};                    // of the pushes
  std::optional<std::int64_t> staleness;         // the bound, if there is one
  std::int64_t window = std::int64_t{48} << 20;  // see AsyncServer
};

// A server of asynchronous training: what comes over its connections, to an AsyncServer and, on
// server 0, a Coordinator, and back. Worker 0 says what is trained and from where.
class AsyncTraining : public Server, private AsyncOutbox, private CoordinatorOutbox {
 public:
  AsyncTraining(ServerOptions server, AsyncOptions options);

  bool has_begun() const override { return floats_missing_ == 0; }
  bool is_stuck() const override {
    return Server::is_stuck() || (coordinator_ && coordinator_->needs_leader() && !has(0));
  }
  std::int64_t step() const override { return machine_ ? machine_->step() : 0; }
  std::int64_t updates() const { return machine_ ? machine_->updates() : 0; }

 private:
  std::optional<std::span<std::byte>> place_of(Peer& peer, const Message& message) override;
  void take(Peer& peer, const Message& message) override;
  void worker_joined(int worker) override;
  void worker_left(int worker) override;
  void server_joined(int) override {}
  void server_left(int) override {}

  bool may_say(const Peer& peer, const Message& message) const;
  void begin(const Beginning& beginning);
  void take_state(const Message& message);
  void take_pushed(const Peer& peer, const Message& message);
  void take_done(const Peer& peer, const Message& message);
  void tell_standing(int worker);
  void tell_all_standing();

  void weights(int worker, std::int64_t step, const Piece& piece, std::span<float> floats) override;
  void has_room() override { resume_workers(); }

  void lease(int worker, std::int64_t step) override;
  void held(int worker, int by) override;
  void cut(int fence, std::int64_t step, bool stop) override;
  void standing(int worker, int) override { tell_standing(worker); }
  void end(int worker, bool saved) override;

  const AsyncOptions options_;
  std::unique_ptr<AsyncServer> machine_;
  std::optional<compress::BlockForm> form_;            // with machine_
  std::optional<Coordinator> coordinator_;  // of server 0
  std::optional<Beginning> beginning_;
  std::int64_t floats_missing_ = -1;      // of its state; -1: nothing is known
  std::map<int, std::string> told_note_;  // each worker's, as long as its connection has it
  Totals totals_;                         // as told last
};

}  // namespace coxswain::ps
