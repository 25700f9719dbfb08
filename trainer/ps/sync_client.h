#pragma once

#include <optional>
#include <span>
#include <vector>

#include "trainer/backend/control.h"
#include "trainer/ps/client.h"

namespace coxswain::ps {

// View. A part of one block of this worker's gradients, as a BlockForm writes it.
struct BlockPart {
  std::int64_t offset = 0;
  int part = 0;  // as the ReductionPlan numbers them
  std::span<const std::byte> bytes;
};

// One worker of synchronous training: what it says to the servers, and what comes of it.
//
// One thing is wanted of the servers at a time: that they take over what training begins with, the
// weights after a step, or the slots. What is pushed stays as it is until the weights are there.
// Whatever a connection loses is said again over the next one.
class SyncClient : public Client {
 public:
  SyncClient(ClientOptions options, Plan plan, WorkerArrays arrays);

  // Worker 0: the servers begin with its arrays.
  void hand_over(std::int64_t step, std::int64_t update_count);
  // `terms` are worker 0's to tell.
  void begin(std::int64_t step, const std::optional<optim::UpdateStep>& terms);
  void push(const BlockPart& part);
  // Worker 0: the servers' slots, between two steps.
  void ask_slots();

  bool has_all() const { return missing() == 0; }                     // that was wanted last
  std::int64_t missing() const;                                       // of it, in floats
  const backend::ControlFloats& outcome() const { return outcome_; }  // of the step

 private:
  enum class Wanted { kNothing, kBegun, kWeights, kSlots };

  bool waits_for(int server) const override { return of(server).missing > 0; }
  void server_joined(int server) override { ask(server); }
  std::optional<std::span<std::byte>> place_of(int server, const Message& message) override;
  bool is_wanted(const Message& message) const;
  void take(int server, const Message& message) override;

  // Of one server.
  struct Dealings {
    std::int64_t missing = 0;       // floats of what is wanted
    std::vector<BlockPart> pushed;  // in this step
  };
  Dealings& of(int server) { return dealings_[static_cast<std::size_t>(server)]; }
  const Dealings& of(int server) const { return dealings_[static_cast<std::size_t>(server)]; }

  void want(Wanted wanted);
  void ask(int server);  // for what is wanted, all of it
  void say_terms(int server);
  void say_push(int server, const BlockPart& part);
  std::int64_t floats_wanted(int server) const;

  const Plan plan_;
  const WorkerArrays arrays_;
  std::vector<Dealings> dealings_;
  Wanted wanted_ = Wanted::kNothing;
  std::int64_t step_ = 0;
  Numbers beginning_;
  std::optional<Terms> terms_;
  backend::ControlFloats outcome_{};
};

}  // namespace coxswain::ps
