#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/ps/client.h"

namespace coxswain::ps {

// Value. How training stands, as the servers say.
struct Standing {
  int fences = 0;           // 0: it has not begun
  std::string note;         // of worker 0, with the newest
  std::optional<bool> end;  // it is over: whether it was saved instead of finished
};

// Value. What server 0 says to a worker.
struct Event {
  enum class Kind { kLease, kCut, kEnd };
  Kind kind = Kind::kLease;
  std::int64_t step = 0;  // to compute; of a cut: up to which all is done
  bool stop = false;      // of a cut: training is to stop; of the end: it was saved
  Totals totals;
};

// One worker of asynchronous training: what it says to the servers, and what comes of it.
//
// One thing is wanted of all servers at a time, as of a SyncClient; beside it, server 0 tells what
// to compute. Whatever a connection loses is said again over the next one; a lease that went with
// it is computed all the same.
class AsyncClient : public Client {
 public:
  // `on_lease`: told of a step as soon as it is this worker's.
  AsyncClient(ClientOptions options, std::function<void(std::int64_t step)> on_lease);

  // Nullopt: not known yet, or there is nothing to take part in before worker 0 has begun it.
  std::optional<Standing> standing() const;
  // Before anything but standing() and events.
  void attach(const Plan& plan, const WorkerArrays& arrays);

  // Worker 0: the servers begin with its arrays.
  void hand_over(std::int64_t step, std::int64_t update_count);
  void pull(std::int64_t step);
  void begin(std::int64_t step);
  void push(std::int64_t offset, std::span<const std::byte> bytes);  // as a BlockForm writes them
  void finish_push(const std::optional<optim::UpdateStep>& terms);   // none: it changes nothing
  void ask_slots();
  bool has_all() const;  // that was wanted last

  void ask_lease();
  void done(std::int64_t step, const StepSums& sums);
  void cut_now(bool stop);
  void set_fence(int fence, std::int64_t step, const std::string& note);
  void end(bool saved);
  std::optional<Event> take_event();
  std::optional<int> held_by() const { return held_by_; }  // instead of a lease

 private:
  enum class Wanted { kNothing, kBegun, kWeights, kSlots };
  struct Pushed {
    std::int64_t offset = 0;
    std::span<const std::byte> bytes;
  };
  // Of one server.
  struct Dealings {
    std::int64_t missing = 0;  // floats of what is wanted
    std::vector<Pushed> pushed;
    std::optional<bool> has_begun;
    int version = 0;  // of its weights here
  };
  struct Fence {
    int number = 0;
    std::int64_t step = 0;
    std::string note;
  };

  bool waits_for(int server) const override;
  void server_joined(int server) override;
  std::optional<std::span<std::byte>> place_of(int server, const Message& message) override;
  void take(int server, const Message& message) override;
  void take_standing(int server, const Message& message);

  Dealings& of(int server) { return dealings_[static_cast<std::size_t>(server)]; }
  const Dealings& of(int server) const { return dealings_[static_cast<std::size_t>(server)]; }
  void want(Wanted wanted);
  void ask(int server);
  void say_finished(int server);
  void say_fence();
  std::int64_t floats_wanted(int server) const;

  const int worker_;
  const std::function<void(std::int64_t)> on_lease_;
  std::optional<Plan> plan_;
  WorkerArrays arrays_;
  std::vector<Dealings> dealings_;
  Wanted wanted_ = Wanted::kNothing;
  std::int64_t step_ = 0;
  Numbers beginning_;
  bool is_push_ = false;      // the weights are wanted in answer to a push
  bool is_finished_ = false;  // and all of it is said
  std::optional<Terms> terms_;

  Standing standing_;
  int leases_asked_ = 0;
  std::optional<Fence> fence_;      // set last
  std::optional<bool> cut_asked_;   // whether to stop
  std::optional<bool> end_;         // as worker 0 says
  std::deque<StepSums> sums_said_;  // kept as long as they may be on their way
  std::deque<Event> events_;
  int last_cut_ = 0;  // the number of its fence
  Totals totals_;
  std::optional<int> held_by_;
};

}  // namespace coxswain::ps
