#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "trainer/ps/async_server.h"
#include "trainer/ps/copied_server.h"
#include "trainer/ps/coordinator.h"

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
//
// What the coordinator decides is told when the copy has it in its Minutes, a group at a time. So
// server 0 comes back as one from which all connections have broken.
class AsyncTraining : public CopiedServer, private AsyncOutbox, private CoordinatorOutbox {
 public:
  AsyncTraining(ServerOptions server, AsyncOptions options);

  bool is_stuck() const override {
    return Server::is_stuck() || (coordinator_ && coordinator_->needs_leader() && !has(0));
  }
  std::int64_t step() const override { return machine_ ? machine_->done().low() : 0; }
  std::int64_t update_count() const { return machine_ ? machine_->update_count() : 0; }

 private:
  std::optional<std::span<std::byte>> place_of(Peer& peer, const Message& message) override;
  std::optional<std::span<std::byte>> place_from_server(Peer& peer, const Message& message);
  void take(Peer& peer, const Message& message) override;
  void take_from_worker(Peer& peer, const Message& message);
  void worker_joined(int worker) override;
  void worker_left(int worker) override;
  bool talks_to(int server) const override { return server == next() || server == previous(); }

  PushTaker* machine() override { return machine_.get(); }
  void make_machine(const Plan& plan) override;
  void start_machine(const Beginning& position, std::span<const std::byte> also) override;
  Beginning position() override;
  Bytes also() override;
  std::unique_ptr<Copy> make_copy(const Plan& plan, int server,
                                  const Beginning& beginning) override;
  void copy_holds(std::optional<std::int64_t> steps) override;
  void may_tell() override;

  bool may_say(const Peer& peer, const Message& message) const;
  void take_pushed(const Peer& peer, const Message& message);
  void take_done(const Peer& peer, const Message& message);
  void take_fence(const Peer& peer, const Message& message);
  void tell_standing(int worker);

  // AsyncOutbox.
  void weights(int worker, std::int64_t step, const Piece& piece, std::span<float> floats) override;
  void has_room() override { resume_workers(); }
  void copy(std::int64_t made, std::int64_t step, std::span<float> gradients,
            const std::optional<optim::UpdateStep>& update) override;

  // CoordinatorOutbox.
  void lease(int worker, std::int64_t step) override;
  void held(int worker, int by) override;
  void cut(int fence, std::int64_t step, bool stop) override;
  void standing(int worker, int fence) override;
  void end(int worker, bool saved) override;

  // What follows from the coordinator's state.
  struct Telling {
    int worker = 0;
    std::function<void()> say;
  };
  using Tellings = std::deque<Telling>;
  Terms& terms_for(std::int64_t made);
  void tell_noted();
  static void tell(Tellings& tellings);
  void say_totals(int worker, const Message& message, const Totals& totals);

  const AsyncOptions options_;
  std::unique_ptr<AsyncServer> machine_;
  std::optional<compress::BlockForm> form_;  // with machine_
  std::optional<Coordinator> coordinator_;  // of server 0
  std::map<int, std::string> told_note_;    // each worker's, as long as its connection has it
  Totals totals_;                           // as told last
  // By how many steps were made before; what the copy has had is written again, not given back.
  std::list<std::pair<std::int64_t, Terms>> told_terms_;
  std::int64_t copied_ = 0;  // steps

  Bytes told_minutes_;  // to the copy
  bool is_noting_ = false;
  Tellings tellings_;  // when it has the minutes as they are now
  Tellings noting_;    // when it has what it was told
};

}  // namespace coxswain::ps
