#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "operator/controller/leader_elector.h"
#include "tests/operator/controller/lease_server.h"
#include "tests/operator/controller/virtual_time.h"
#include "tests/support/test_flags.h"

namespace coxswain::controller {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::VirtualTime;

constexpr seconds kEnd{900};

// Three operators that start, lead, hang, crash and stop over a network that delays, loses and
// repeats nothing but loses answers. At no moment two of them hold the lease.
class Election {
 public:
  explicit Election(std::uint64_t seed) : seed_(seed) {}

  void run() {
    std::vector<std::jthread> threads;
    for (int id = 0; id < kOperators; ++id) {
      operators_[id].random.seed(seed_ * kOperators + static_cast<std::uint64_t>(id));
      threads.emplace_back([this, id] { live(id); });
    }
  }

  int terms = 0;      // how often somebody began to lead
  int steps_led = 0;  // of `steps`, with a leader
  int steps = 0;
  int most_holders = 0;

 private:
  static constexpr int kOperators = 3;
  struct Crash {};

  struct Operator {
    std::mt19937_64 random;
    LeaderElector* elector = nullptr;  // while it lives
    Monotonic crashes_at{};
    Monotonic stops_at{};
    std::stop_source stop;
  };

  // Its network. Called on its thread.
  class Wire : public kube::Transport {
   public:
    Wire(Election& election, int id) : election_(election), id_(id) {}
    kube::Response send(const kube::Request& request) override {
      return election_.send(id_, request);
    }
    kube::Response stream(const kube::Request&, std::stop_token,
                          const std::function<bool(std::string_view)>&) override {
      return {};
    }

   private:
    Election& election_;
    int id_;
  };

  Monotonic draw(int id, Monotonic least, Monotonic most) {
    return Monotonic(std::uniform_int_distribution<Monotonic::rep>(
        least.count(), most.count())(operators_[id].random));
  }

  void sleep(int id, Monotonic time) {
    Operator& self = operators_[id];
    const Monotonic until = time_.now() + time;
    time_.sleep(id, std::min(until, std::max(self.crashes_at, time_.now())) - time_.now());
    if (time_.now() >= self.crashes_at || time_.now() >= kEnd) throw Crash();
    if (time_.now() >= self.stops_at) self.stop.request_stop();
  }

  kube::Response send(int id, const kube::Request& request) {
    const auto fate = operators_[id].random() % 20;
    const bool slow = operators_[id].random() % 8 == 0;
    const Monotonic most = slow ? Monotonic(seconds(20)) : Monotonic(milliseconds(400));
    if (fate == 0) {  // lost
      sleep(id, request.deadline);
      return {};
    }
    if (fate == 1) {  // given up, and then it has its effect
      server_.handle_late(request, time_.now() + draw(id, seconds(1), seconds(40)));
      sleep(id, request.deadline);
      return {};
    }
    sleep(id, draw(id, {}, most));
    kube::Response response = server_.handle(request, time_.now());
    sleep(id, draw(id, {}, most));
    return fate == 2 ? kube::Response{} : response;
  }

  // One operator after the other, each a process of its own, on a machine whose clock is its own.
  void live(int id) {
    const Monotonic offset = draw(id, {}, seconds(100'000));
    const double rate = 0.9 + 0.2 * std::generate_canonical<double, 32>(operators_[id].random);
    time_.sleep(id, draw(id, milliseconds(id), seconds(5)));
    for (int life = 0; time_.now() < kEnd; ++life) {
      Operator& self = operators_[id];
      self.crashes_at = time_.now() + draw(id, seconds(1), seconds(300));
      self.stops_at = time_.now() + draw(id, seconds(1), seconds(300));
      self.stop = std::stop_source();
      LeaderOptions options;
      options.name_space = "system";
      options.identity = std::to_string(id) + "_" + std::to_string(life);
      options.clock.now = [=, this] { return offset + scaled(time_.now(), rate); };
      options.clock.wall = [=, this] {  // jumps, hours back and forth
        return WallTime(std::chrono::floor<std::chrono::microseconds>(draw(id, {}, seconds(9999))));
      };
      options.clock.random = [&self] { return std::generate_canonical<double, 32>(self.random); };
      options.clock.sleep = [=, this](Monotonic time, std::stop_token) {
        sleep(id, scaled(time, 1 / rate));
      };
      Wire wire(*this, id);
      kube::Client client(wire, {.sleep = [](milliseconds) {}, .tries = 1});
      LeaderElector elector(client, options);
      self.elector = &elector;
      try {
        while (elector.acquire(self.stop.get_token())) {
          ++terms;
          if (elector.keep(self.stop.get_token())) break;
        }
      } catch (const Crash&) {
      }
      self.elector = nullptr;
      time_.sleep(id, draw(id, {}, seconds(10)));
    }
    time_.leave();
  }

  static Monotonic scaled(Monotonic time, double factor) {
    return Monotonic(static_cast<Monotonic::rep>(static_cast<double>(time.count()) * factor));
  }

  // All sleep: who holds at this moment?
  void check() {
    const auto holders = std::count_if(
        std::begin(operators_), std::end(operators_),
        [](const Operator& one) { return one.elector != nullptr && one.elector->holds(); });
    ++steps;
    steps_led += holders > 0 ? 1 : 0;
    most_holders = std::max(most_holders, static_cast<int>(holders));
  }

  const std::uint64_t seed_;
  test::LeaseServer server_;
  Operator operators_[kOperators];
  VirtualTime time_{kOperators, [this] { check(); }};
};

TEST(LeaderLaws, never_do_two_hold_the_lease) {
  const std::uint64_t first = test::flags().seed_given ? test::flags().seed : 1;
  const std::uint64_t last = test::flags().seed_given ? first : 30;
  int terms = 0;
  for (std::uint64_t seed = first; seed <= last && !HasFailure(); ++seed) {
    SCOPED_TRACE("--seed " + std::to_string(seed));
    Election election(seed);
    election.run();
    EXPECT_LE(election.most_holders, 1);
    EXPECT_GT(election.steps_led * 4, election.steps) << "hardly anybody ever led";
    terms += election.terms;
  }
  EXPECT_GE(terms, static_cast<int>(last - first + 1) * 4);
}

}  // namespace

}  // namespace coxswain::controller
