#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/operator_loop.h"
#include "tests/simulation/fault_plan.h"
#include "tests/simulation/random.h"
#include "tests/simulation/scene.h"

namespace coxswain::test {

// Ends an operator where it stands: nobody between here and the test catches it.
struct Crash {};

// Between the operators of one run and the API server: counts their requests, and lets the plan's
// faults happen.
struct Wire {
  struct Trouble {
    FaultPlan plan;
    bool happened = false;
    std::string request = {};                    // whose tries meet it
    int tries_left = 0;
    std::optional<job::Time> silent_until = {};  // of the watch in the plan
  };
  struct Late {
    job::Time when;
    kube::Request request;
  };

  Scene& scene;
  std::vector<Trouble> troubles;
  Mutation mutation = Mutation::kNone;
  bool trace = false;
  job::Seconds skew{0};       // of the operator's clock
  job::Seconds most_skew{0};  // so far: what a pass does now it may have decided before a step
  Random random{1};
  int requests = 0;
  int writes = 0;                        // requests that would change something
  std::vector<std::string> log = {};     // of all requests
  std::vector<Late> late = {};           // requests that are still on their way
  std::function<void()> take_over = {};  // another operator comes and leads for a while
  std::function<void(int)> wait = {};    // all else goes on for so many seconds
  std::chrono::milliseconds elapsed{0};  // of this second

  std::chrono::steady_clock::time_point now() const {
    return std::chrono::steady_clock::time_point(scene.server.now.time_since_epoch() + elapsed);
  }
};

// One operator's connection.
class Link : public kube::Transport {
 public:
  explicit Link(Wire& wire) : wire_(wire) {}

  bool holds_lease = true;
  bool must_crash = false;  // as soon as it does anything
  const OperatorLoop* loop = nullptr;

  kube::Response send(const kube::Request& request) override;
  kube::Response stream(const kube::Request& request, std::stop_token stop,
                        const std::function<bool(std::string_view)>& on_data) override;
  void wait(std::chrono::milliseconds time);  // what its caller does meanwhile
  [[noreturn]] void crash();

 private:
  Wire::Trouble* trouble_with(const std::string& what, int index);
  kube::Response forward(const kube::Request& request);
  kube::Response with_fault(const kube::Request& request, const FaultPlan& plan);
  kube::Request mutated(kube::Request request) const;
  kube::Response mutated(const kube::Request& request, kube::Response response);
  void mutate_list(const std::string& resource, bool is_first, kube::Response& response) const;

  Wire& wire_;
  bool dead_ = false;
  bool late_ = false;
  std::map<std::string, int> lists_;  // how many there were, by resource
};

// The production operator in simulated time, one thing after the other: while a call of a pass
// waits, all else goes on, as it would on other threads.
class OperatorInstance {
 public:
  explicit OperatorInstance(Wire& wire);

  // Hears what the watches tell, and works until nothing is due in this second. Throws Crash.
  // False: there was more to do than there can be.
  bool step();

 private:
  // Carries one watch, as a thread does.
  struct Carrier {
    std::string resource;
    OperatorLoop::Watch* watch = nullptr;
    bool is_listing = false;
    std::optional<std::chrono::steady_clock::time_point> rests_until = {};
    std::optional<job::Time> watches_since = {};
    std::size_t next = 0;  // in the history
    int ordinal = 0;       // of that revision among its kind
  };

  void carry(Carrier& carrier);
  void hear(Carrier& carrier);
  void begin(Carrier& carrier);
  void end(Carrier& carrier, const kube::WatchEnd& end);
  bool is_silent(Carrier& carrier, Wire::Trouble& trouble);
  bool tell(Carrier& carrier, const Revision& revision);

  Wire& wire_;
  Link link_;
  controller::Watchdog watchdog_;
  kube::Client client_;
  OperatorLoop loop_;
  std::array<Carrier, 2> carriers_;
};

}  // namespace coxswain::test
