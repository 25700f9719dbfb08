#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "trainer/ps/message.h"
#include "trainer/ps/push_taker.h"
#include "trainer/ps/step_set.h"

namespace coxswain::ps {

// What an asynchronous server asks of those who carry its messages. The memory is the shard's: an
// update may change it before it has left.
class AsyncOutbox {
 public:
  virtual ~AsyncOutbox() = default;
  virtual void weights(int worker, std::int64_t step, const Piece& piece,
                       std::span<float> floats) = 0;
  // To the server that keeps a copy: the step that is made after `made` others. The gradients stay
  // as they are until it has them, or is not to be had.
  virtual void copy(std::int64_t made, std::int64_t step, std::span<float> gradients,
                    const std::optional<optim::UpdateStep>& update) = 0;
  // What was told to wait may be offered again.
  virtual void has_room() = 0;
};

// One server of asynchronous training, as a state machine: no thread, no clock, no socket. Each
// step is pushed by one worker, which then gets the weights; a server applies a step's gradients at
// once when all are there, and only the first time, whoever pushes the step again.
//
// With several servers the next one keeps a copy (ps::Copy): it makes the same updates, in the same
// order, and a worker gets its answer when it has. So no push that was answered is lost with one
// server; one that was not is made again.
//
// The rate is divided by the push's staleness: how many updates were made here since the worker was
// last sent the weights (Zhang et al., "Staleness-aware async-SGD for distributed deep learning",
// IJCAI 2016, equation 6).
class AsyncServer : public PushTaker {
 public:
  // `window`: bytes of steps that may be on their way, to the copy too; of one there is always
  // room.
  AsyncServer(const Plan& plan, int server, optim::UpdateRule rule, std::int64_t window,
              AsyncOutbox& outbox);

  Shard& shard() override { return shard_; }
  // To go on from a checkpoint, whose weights and slots are in the shard.
  // Or of a copy, which had made these.
  void start(const StepSet& done, std::int64_t update_count);
  const StepSet& done() const { return done_; }
  std::int64_t update_count() const { return update_count_; }

  Answer offer(const Push& push) override;
  void received(const Push& push) override;
  // All of the step is pushed, as computed on weights of that version; without terms it changes
  // nothing.
  void pushed(int worker, std::int64_t step, int version,
              const std::optional<optim::UpdateStep>& terms);
  void pull(int worker, std::int64_t step) { owe(worker, step); }
  // The copy is as after so many steps; nullopt: it is not to be had, and no step is made.
  void copy_holds(std::optional<std::int64_t> steps);
  // What it was sending is offered anew by it or its successor.
  void lost_worker(int worker);

  // Of the worker's newest update.
  std::int64_t staleness(int worker) const {
    const auto found = staleness_.find(worker);
    return found == staleness_.end() ? 0 : found->second;
  }

 private:
  // A worker's step on its way.
  struct Staging {
    std::int64_t step = 0;
    tensor::AlignedBuffer<float> gradients;
    std::vector<bool> is_here;  // of each piece
    std::size_t missing = 0;
    bool is_complete = false;  // all of it was said
    int version = 0;
    std::optional<optim::UpdateStep> terms;
  };

  bool has_room_for(int worker);
  Staging& staging_of(int worker, std::int64_t step);
  void drop_staging(int worker);
  void finish_if_whole(int worker);
  std::optional<optim::UpdateStep> apply(int worker, const Staging& staging);
  void forward(std::int64_t step, tensor::AlignedBuffer<float> gradients,
               const std::optional<optim::UpdateStep>& update);
  void owe(int worker, std::int64_t step);
  void pay();
  void send_weights(int worker, std::int64_t step);

  const Plan plan_;
  const optim::UpdateRule rule_;
  AsyncOutbox& outbox_;
  Shard shard_;
  std::size_t most_stagings_;

  StepSet done_;
  std::int64_t update_count_ = 0;
  std::map<int, std::int64_t> staleness_;  // of each worker's newest update
  std::map<int, Staging> stagings_;        // by worker
  std::vector<tensor::AlignedBuffer<float>> spare_;
  std::deque<int> waiting_;  // workers, the first one next

  // Weights that a worker gets when the copy has made so many steps.
  struct Owed {
    int worker = 0;
    std::int64_t step = 0;
    std::int64_t made = 0;
  };
  struct Forwarded {
    std::int64_t made = 0;  // with it
    tensor::AlignedBuffer<float> gradients;
  };
  const bool is_copied_;
  std::optional<std::int64_t> copied_;  // steps
  std::deque<Owed> owed_;
  std::deque<Forwarded> forwarded_;
};

}  // namespace coxswain::ps
