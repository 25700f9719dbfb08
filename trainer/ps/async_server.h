#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

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
  // What was told to wait may be offered again.
  virtual void has_room() = 0;
};

// One server of asynchronous training, as a state machine: no thread, no clock, no socket. Each
// step is pushed by one worker, which then gets the weights; a server applies a step's gradients at
// once when all are there, and only the first time, whoever pushes the step again.
//
// The rate is divided by the push's staleness: how many updates were made here since the worker was
// last sent the weights (Zhang et al., "Staleness-aware async-SGD for distributed deep learning",
// IJCAI 2016, equation 6).
class AsyncServer : public PushTaker {
 public:
  // `window`: bytes of steps that may be on their way; of one there is always room.
  AsyncServer(const Plan& plan, int server, optim::UpdateRule rule, std::int64_t window,
              AsyncOutbox& outbox);

  Shard& shard() override { return shard_; }
  // To go on from a checkpoint, whose weights and slots are in the shard.
  void start(std::int64_t step, std::int64_t update_count);
  std::int64_t step() const { return done_.low(); }  // all below are done
  std::int64_t updates() const { return version_; }  // made here

  Answer offer(const Push& push) override;
  void received(const Push& push) override;
  // All of the step is pushed; without terms it changes nothing.
  void pushed(int worker, std::int64_t step, const std::optional<optim::UpdateStep>& terms);
  void pull(int worker, std::int64_t step) { send_weights(worker, step); }
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
    std::optional<optim::UpdateStep> terms;
  };

  bool has_room_for(int worker);
  Staging& staging_of(int worker, std::int64_t step);
  void drop_staging(int worker);
  void finish_if_whole(int worker);
  void apply(int worker, const Staging& staging);
  void answer(int worker, std::int64_t step);
  void send_weights(int worker, std::int64_t step);

  const Plan plan_;
  const optim::UpdateRule rule_;
  AsyncOutbox& outbox_;
  Shard shard_;
  std::size_t most_stagings_;

  StepSet done_;
  std::int64_t update_count_ = 0;
  std::int64_t version_ = 0;                  // updates made here
  std::map<int, std::int64_t> staleness_;     // of each worker's newest update
  std::map<int, std::int64_t> version_sent_;  // to each worker last
  std::map<int, Staging> stagings_;           // by worker
  std::vector<tensor::AlignedBuffer<float>> spare_;
  std::deque<int> waiting_;  // workers, the first one next
};

}  // namespace coxswain::ps
