#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/backend/control.h"
#include "trainer/comm/reduction.h"
#include "trainer/ps/shard.h"

namespace coxswain::ps {

// Value. A part of one block of a step's gradients, on its way from a worker.
struct Push {
  int worker = 0;
  std::int64_t step = 0;
  int part = 0;             // as the ReductionPlan numbers them
  std::int64_t offset = 0;  // of the block, in the flat buffer
  std::int64_t length = 0;  // floats
};

// What a synchronous server asks of those who carry its messages. Memory stays as it is until every
// worker has it.
class SyncOutbox {
 public:
  virtual ~SyncOutbox() = default;
  // To the server of the control segment: this one has all sums of the step.
  virtual void ready(std::int64_t step, bool finite) = 0;
  // To all servers, from that one.
  virtual void decided(std::int64_t step, bool updated) = 0;
  // To a worker, or to all of them: what the step came to, and the new weights.
  virtual void outcome(std::optional<int> worker, std::int64_t step, std::span<float> sums) = 0;
  virtual void weights(std::optional<int> worker, std::int64_t step, const Piece& piece,
                       std::span<float> floats) = 0;
  // What was told to wait may be offered again.
  virtual void has_room() = 0;
};

// One server of synchronous training, as a state machine: no thread, no clock, no socket. All
// workers push each block of their gradients' parts; the server adds them in the plan's order, as
// all-reduce does, so the bits are the same for any number of servers. A step has two phases: each
// server tells whether its sums are finite; the one that holds the control segment decides for all
// whether the step updates; then each updates what it holds and sends it to the workers.
//
// A push that comes again, for a step that is over or a part that is here, changes nothing.
class SyncServer {
 public:
  // `window`: bytes of parts that may wait for the others of their block.
  SyncServer(const Plan& plan, int server, comm::ReductionPlan reduction, optim::UpdateRule rule,
             std::int64_t window, SyncOutbox& outbox);

  Shard& shard() { return shard_; }
  std::int64_t step() const { return step_; }  // that are done
  // To go on from a checkpoint, whose weights and slots are in the shard.
  void start(std::int64_t step, std::int64_t update_count);

  enum class Verdict { kTake, kWait, kIgnore };
  struct Answer {
    Verdict verdict = Verdict::kIgnore;
    std::span<float> memory = {};  // kTake: for the floats
  };
  // Throws Error(71) for what no worker of this job pushes.
  Answer offer(const Push& push);
  void received(const Push& push);
  // What it was sending is offered anew by it or its successor.
  void lost_worker(int worker);
  // A worker that has come back has not got the weights of `step`.
  void asks_again(int worker, std::int64_t step);

  // What a worker says of a step before the servers can make it; they count the updates themselves.
  void terms(std::int64_t step, const optim::UpdateStep& terms);
  void server_ready(int server, std::int64_t step, bool finite);
  void decision(std::int64_t step, bool updated);
  // Another server has come back, and may not have heard what was said last.
  void tell_servers_again();

 private:
  enum class PartState : std::uint8_t { kMissing, kArriving, kHere };
  struct Block {
    Piece piece;
    tensor::AlignedBuffer<float> staging;
    std::vector<PartState> parts;
    int missing = 0;
    bool is_summed = false;
  };

  std::size_t find(const Push& push) const;
  std::span<float> staging(Block& block, int part) const;
  bool brings(int worker, int part) const;
  void sum(Block& block);
  bool has_all_sums() const { return first_unsummed_ == blocks_.size(); }
  void say_ready();
  void finish_step_if_known();
  bool holds_control() const { return server_ == plan_.map.control_server(); }
  std::span<float> control_of(std::span<float> buffer) const;
  void send_weights(std::optional<int> worker, std::int64_t step);
  void begin_step();

  const Plan plan_;
  const int server_;
  const comm::ReductionPlan reduction_;
  const optim::UpdateRule rule_;
  SyncOutbox& outbox_;
  Shard shard_;

  std::int64_t step_ = 0;
  std::int64_t update_count_ = 0;
  std::vector<Block> blocks_;
  std::size_t first_unsummed_ = 0;
  std::size_t window_ = 1;  // blocks
  std::optional<optim::UpdateStep> terms_;
  std::optional<bool> decision_;
  std::optional<bool> last_decision_;        // of the step before
  std::vector<std::optional<bool>> finite_;  // of each server; where the control segment is
  backend::ControlFloats last_sums_{};       // of the step before; where the control segment is
};

}  // namespace coxswain::ps
