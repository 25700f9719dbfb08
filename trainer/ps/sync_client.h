#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/backend/control.h"
#include "trainer/net/network.h"
#include "trainer/optim/update_rule.h"
#include "trainer/ps/message.h"
#include "trainer/ps/shard.h"

namespace coxswain::ps {

// Value. What a worker knows before it calls.
struct ClientOptions {
  int worker = 0;
  std::vector<net::Address> servers;
  // Seconds: until all servers are there; that one may be away; for a step.
  int startup_deadline = 600;
  int away_deadline = 10;
  int step_deadline = 300;
};

// View. The arrays of a worker that training with servers reads and writes, in the host's memory.
struct WorkerArrays {
  std::span<float> weights;
  std::vector<std::span<float>> slots;
};

// View. A part of one block of this worker's gradients.
struct BlockPart {
  std::int64_t offset = 0;
  int part = 0;  // as the ReductionPlan numbers them
  std::span<float> floats;
};

// One worker of synchronous training: what it says to the servers, and what comes of it. No thread,
// no clock, no socket of its own: whoever owns the links calls tick() once a second.
//
// One thing is wanted of the servers at a time: that they take over what training begins with, the
// weights after a step, or the slots. What is pushed stays as it is until the weights are there.
// Whatever a connection loses is said again over the next one.
class SyncClient : public net::NetworkEvents {
 public:
  SyncClient(ClientOptions options, Plan plan, WorkerArrays arrays);

  void use(net::Links& links);  // and calls the servers
  // Throws Error(69, 71) naming the servers that are away for too long, or keep this worker waiting.
  void tick();

  // Worker 0: the servers begin with its arrays.
  void hand_over(std::int64_t step, std::int64_t update_count);
  // `terms` are worker 0's to tell.
  void begin(std::int64_t step, const std::optional<optim::UpdateStep>& terms);
  void push(const BlockPart& part);
  // Worker 0: the servers' slots, between two steps.
  void ask_slots();

  bool all_are_there() const;
  bool has_all() const;  // that was wanted last
  const backend::ControlFloats& outcome() const { return outcome_; }  // of the step

  std::optional<net::Refusal> admit(net::LinkId link, const net::Hello& theirs) override;
  void joined(net::LinkId link) override;
  std::optional<net::Pieces> place(net::LinkId link, const net::FrameHead& head) override;
  void received(net::LinkId link, const net::FrameHead& head) override;
  void sent(net::LinkId, std::uint64_t) override {}
  void heard(net::LinkId link) override;
  void left(net::LinkId link, const std::string& why) override;
  void not_reached(const net::Address& address, const net::Refusal& refusal) override;

 private:
  enum class Wanted { kNothing, kBegun, kWeights, kSlots };

  struct Server {
    net::LinkId link = 0;  // 0: none
    bool has_joined = false;
    int silent_ticks = 0;
    int away_ticks = 0;
    std::string trouble = "it has not answered";
    std::int64_t missing = 0;        // floats of what is wanted
    std::vector<BlockPart> pushed;   // in this step
    std::vector<std::byte> scratch;  // of what is not wanted any more
  };

  void want(Wanted wanted);
  void ask(int server);  // for what is wanted, all of it
  void say(int server, const Message& message, std::span<const std::byte> bytes = {});
  void say_state(int server);
  void say_push(int server, const BlockPart& part);
  std::int64_t floats_wanted(int server) const;
  std::span<float> place_of(int server, const Message& message);
  Server& server_of(net::LinkId link) { return servers_[static_cast<std::size_t>(number(link))]; }
  int number(net::LinkId link) const { return number_of_link_.at(link); }
  std::string describe(int server) const;

  const ClientOptions options_;
  const Plan plan_;
  const WorkerArrays arrays_;
  net::Links* links_ = nullptr;
  std::vector<Server> servers_;
  std::map<net::LinkId, int> number_of_link_;
  bool have_all_been_there_ = false;
  int waiting_ticks_ = 0;

  Wanted wanted_ = Wanted::kNothing;
  std::int64_t step_ = 0;
  Numbers beginning_;
  std::optional<std::array<float, 3>> terms_;
  backend::ControlFloats outcome_{};
  std::optional<net::Refusal> refused_;
};

}  // namespace coxswain::ps
