#pragma once

#include <memory>
#include <optional>

#include "trainer/ps/copy.h"
#include "trainer/ps/server.h"
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

// A server of synchronous training: what comes over its connections, to a SyncServer, and back. The
// first step waits for worker 0 to say what is trained and from where.
//
// Of several servers each holds a Copy of what the one before it holds. One that comes back empty
// gets its own from the next, and the copy from the one before; what it was told meanwhile waits.
// It gives up (71) when the next one has none: two neighbours were lost at once, or the only
// server.
class SyncTraining : public Server, private SyncOutbox {
 public:
  SyncTraining(ServerOptions server, SyncOptions options)
      : Server(std::move(server)),
        options_(std::move(options)),
        source_(incarnation() == 0 ? Source::kWorker : Source::kUnknown) {}

  bool has_begun() const override { return floats_missing_ == 0; }
  std::int64_t step() const override { return machine_ ? machine_->step() : 0; }
  // One server may be lost now without anything that it held: if not this one, then another.
  bool is_safe() const { return has_begun() && copy_ && !coming_; }

 private:
  std::optional<std::span<std::byte>> place_of(Peer& peer, const Message& message) override;
  void take(Peer& peer, const Message& message) override;
  void worker_left(int worker) override;
  void server_joined(int server) override;
  void server_left(int server) override;

  std::optional<std::span<std::byte>> place_from_server(Peer& peer, const Message& message);
  void take_from_server(Peer& peer, const Message& message);
  std::span<std::byte> place_of_state(Peer& peer, const Message& message);
  void begin(const Beginning& beginning);
  void take_state(const Message& message);
  void start();
  void say_begun();

  // Copies.
  int next() const { return (index() + 1) % num_servers(); }
  int previous() const { return (index() + num_servers() - 1) % num_servers(); }
  bool is_mine(const Message& message) const;
  void send_status(int server);
  void take_status(int server, int status);
  void find_source(int status_of_next);
  void send_copy();
  void send_outcome(int server, std::optional<backend::ControlFloats>& outcome, int whose);
  void send_state(int server, Shard& shard);
  void restore_previous();

  void ready(std::int64_t step, bool finite) override;
  void decided(std::int64_t step, bool updated) override;
  void outcome(std::optional<int> worker, std::int64_t step, std::span<float> sums) override;
  void weights(std::optional<int> worker, std::int64_t step, const Piece& piece,
               std::span<float> floats) override;
  void has_room() override { resume_workers(); }
  void copy_sums(std::int64_t step, const Piece& piece, std::span<float> sums) override;
  void copy_commit(std::int64_t step, bool updated, const optim::UpdateStep& terms) override;

  // Where its state comes from.
  enum class Source { kUnknown, kWorker, kNext };

  const SyncOptions options_;
  Source source_;
  std::unique_ptr<SyncServer> machine_;
  std::optional<compress::BlockForm> form_;  // with machine_
  std::optional<Beginning> beginning_;
  std::int64_t floats_missing_ = -1;  // of its state; -1: nothing is known
  std::optional<backend::ControlFloats> restored_outcome_;

  std::unique_ptr<Copy> copy_;    // of what the one before holds
  std::unique_ptr<Copy> coming_;  // a newer one, of which not all is here
  Numbers told_beginning_;        // sent to the next
  Numbers told_restore_;          // sent to the one before
  Terms told_terms_{};            // of the last commit
};

}  // namespace coxswain::ps
