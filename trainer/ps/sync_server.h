#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/backend/control.h"
#include "trainer/comm/reduction.h"
#include "trainer/ps/push_taker.h"

namespace coxswain::ps {

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
  // To the server that keeps a copy: a block of this step's sums; what the step comes to.
  virtual void copy_sums(std::int64_t step, const Piece& piece, std::span<float> sums) = 0;
  virtual void copy_commit(std::int64_t step, bool updated, const optim::UpdateStep& terms) = 0;
};

// One server of synchronous training, as a state machine: no thread, no clock, no socket. All
// workers push each block of their gradients' parts; the server adds them in the plan's order, as
// all-reduce does, so the bits are the same for any number of servers. A step has two phases: each
// server tells whether its sums are finite; the one that holds the control segment decides for all
// whether the step updates; then each updates what it holds and sends it to the workers.
//
// With several servers the next one keeps a copy (ps::Copy): it makes the same updates from the
// same sums, and weights are sent when it has. So what a worker has seen is never lost with one
// server.
//
// A push that comes again, for a step that is over or a part that is here, changes nothing.
class SyncServer : public PushTaker {
 public:
  // `window`: bytes of parts that may wait for the others of their block.
  SyncServer(const Plan& plan, int server, comm::ReductionPlan reduction, optim::UpdateRule rule,
             std::int64_t window, SyncOutbox& outbox);

  Shard& shard() override { return shard_; }
  std::int64_t step() const { return step_; }  // that are done
  std::int64_t update_count() const { return update_count_; }
  // What the last step came to; elsewhere than where the control segment is, its verdict alone.
  std::optional<backend::ControlFloats>& outcome() { return outcome_; }
  // To go on from a checkpoint, or a copy, whose weights and slots are in the shard. `last`: what
  // the step before came to, of a copy where the control segment is.
  void start(std::int64_t step, std::int64_t update_count,
             const std::optional<backend::ControlFloats>& last = std::nullopt);

  Answer offer(const Push& push) override;
  void received(const Push& push) override;
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
  // The copy is as after so many steps; nullopt: it is not to be had.
  void copy_holds(std::optional<std::int64_t> steps);

 private:
  enum class PartState : std::uint8_t { kMissing, kArriving, kHere };
  struct Block {
    Piece piece;
    tensor::AlignedBuffer<float> staging;  // of its parts, unless there is one
    std::vector<PartState> parts;
    int missing = 0;
    bool is_summed = false;
  };

  std::size_t find(const Push& push) const;
  std::span<float> place_of(Block& block, int part);
  bool brings(int worker, int part) const;
  void sum(Block& block);
  void copy_sums(const Block& block);
  bool has_all_sums() const { return first_unsummed_ == blocks_.size(); }
  void say_ready();
  void finish_step_if_known();
  bool has_copy_of(std::int64_t steps) const { return !is_copied_ || copied_ == steps; }
  void send_weights_if_copied();
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
  std::vector<tensor::AlignedBuffer<float>> spare_staging_;
  bool sums_are_finite_ = true;  // of the blocks that are summed
  std::optional<optim::UpdateStep> terms_;
  std::optional<bool> decision_;
  std::optional<bool> last_decision_;  // of the step before
  const bool is_copied_;
  std::optional<std::int64_t> copied_;       // steps
  bool owes_weights_ = false;                // of the step before, to all
  std::vector<std::optional<bool>> finite_;  // of each server; where the control segment is
  std::optional<backend::ControlFloats> outcome_;
};

}  // namespace coxswain::ps
