#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/trainer/ps/chaos.h"
#include "tests/trainer/ps/sync_world.h"
#include "trainer/contract/error.h"

namespace coxswain::ps::sync_world {
namespace {

constexpr int kServers = 3, kWorkers = 2;
constexpr int kSecondsOfRun = 1800;
constexpr int kSaveEvery = 60;    // steps, one a second
constexpr int kLongestRest = 60;  // seconds without a step
constexpr int kSilent = 10;       // seconds, until workers miss each other
const auto kReduction = comm::in_rank_order(kWorkers);

// Workers that make a step a second, and what befalls them. A server that dies is made anew alone;
// a worker that dies takes all with it: they go on from the last checkpoint.
class Chaos {
 public:
  Chaos(unsigned seed, int every) : seed_(seed), faults_(seed, every, true, kWorkers, kServers) {
    course_.end = std::int64_t{1} << 40;
    course_.save_every = kSaveEvery;
    start_gang();
  }

  // What went wrong.
  std::optional<std::string> run() {
    for (now_ = 1; now_ <= kSecondsOfRun; ++now_) {
      frozen_.thaw(*network_, now_);
      if (now_ == gang_back_) start_gang();
      for (int i = 0; i < kServers; ++i)
        if (has_gang() && now_ == server_back_[i]) start_server(i);
      const std::optional<Fault> fault = faults_.at(now_);
      if (now_ == gang_ends_ && has_gang()) end_gang();
      if (has_gang()) second(fault);
      if (frozen_.is_any("server")) ++halted_;
      if (breach_) return breach_;
      if (now_ - last_progress_ > kLongestRest)
        return fmt::format("no step from second {} to {}", last_progress_, now_);
    }
    steps_in_time_ = steps_;
    return finish();
  }

  std::int64_t steps() const { return steps_in_time_; }
  int seconds_left() const { return kSecondsOfRun - halted_; }

 private:
  bool has_gang() const { return !workers_.empty(); }
  static std::string server_name(int i) { return to_text(address_of(i)); }
  static std::string worker_name(int i) { return "worker " + std::to_string(i); }

  void start_gang() {
    network_ = std::make_unique<SimulatedNetwork>(seed_ + static_cast<unsigned>(gangs_++));
    frozen_ = {};
    all_begun_ = false;
    gang_ends_ = 0;
    incarnations_.assign(kServers, -1);
    servers_.resize(kServers);
    for (int i = 0; i < kServers; ++i) start_server(i);
    for (int i = 0; i < kWorkers; ++i) {
      workers_.push_back(std::make_unique<Worker>(i, plan_, kReduction, course_));
      workers_.back()->client().use(network_->add(worker_name(i), hello_of("worker", i, kWorkers),
                                                  workers_.back()->client()));
    }
  }

  void end_gang() {
    for (int i = 0; i < kWorkers; ++i) network_->remove(worker_name(i));
    for (int i = 0; i < kServers; ++i) network_->remove(server_name(i));
    workers_.clear();
    servers_.clear();
    server_back_.clear();
    gang_back_ = now_ + kComesBack;
  }

  void start_server(int i) {
    const auto index = static_cast<std::size_t>(i);
    ServerOptions options{hello_of("server", i, kWorkers), addresses(kServers)};
    options.hello.incarnation = ++incarnations_[index];
    servers_[index] = std::make_unique<SyncTraining>(
        options, SyncOptions{.reduction = kReduction, .rule = kRule, .num_slots = 1});
    servers_[index]->use(network_->add(server_name(i), options.hello, *servers_[index]));
  }

  void befall(const Fault& fault) {
    const auto index = static_cast<std::size_t>(fault.index);
    const bool dies = fault.kind == Fault::Kind::kDies;
    if (fault.of_server && !servers_[index]) return;  // it is dead
    if (dies && !fault.of_server) return end_gang();
    if (dies) {
      network_->remove(server_name(fault.index));
      servers_[index].reset();
      server_back_[fault.index] = now_ + kComesBack;
      return;
    }
    frozen_.add(*network_, fault.of_server ? server_name(fault.index) : worker_name(fault.index),
                fault, now_);
    if (!fault.of_server && fault.seconds > kSilent) gang_ends_ = now_ + kSilent;
  }

  void second(const std::optional<Fault>& fault) {
    for (const auto& worker : workers_) worker->may_begin_below = worker->step() + 1;
    if (fault) {
      for (int i = 0; i < fault->after; ++i) {
        act(1);
        network_->happen();
      }
      befall(*fault);
      if (!has_gang()) return;
    }
    act_until_quiet();
    bool gives_up = false;
    try {
      for (int i = 0; i < kServers; ++i)
        if (auto& server = servers_[static_cast<std::size_t>(i)];
            server && !frozen_.is_stopped(server_name(i))) {
          server->tick();
          gives_up = gives_up || server->refused();
        }
      for (int i = 0; i < kWorkers; ++i)
        if (!frozen_.is_stopped(worker_name(i)))
          workers_[static_cast<std::size_t>(i)]->client().tick();
    } catch (const Error&) {
      gives_up = true;
    }
    if (gives_up) return end_gang();
    act_until_quiet();
    if (network_->breach) breach_ = network_->breach;
    if (!workers_[0]->saved.weights.empty()) course_ = workers_[0]->saved;
    if (std::exchange(steps_, workers_[0]->step()) != workers_[0]->step()) last_progress_ = now_;
  }

  void act(int times) {
    for (int i = 0; i < kWorkers; ++i)
      if (!frozen_.is_stopped(worker_name(i)))
        for (int act = 0; act < times; ++act)
          workers_[static_cast<std::size_t>(i)]->act(all_begun_);
  }

  void act_until_quiet() {
    const bool is_quiet = settle(*network_, [this] { act(200); });
    if (!is_quiet) breach_ = "there is no end of what they say";
  }

  // Nothing befalls them any more; then the weights tell of every push.
  std::optional<std::string> finish() {
    for (const int end = now_ + 60; now_ < end; ++now_) {
      frozen_.thaw(*network_, now_);
      if (now_ == gang_back_) start_gang();
      for (int i = 0; i < kServers; ++i)
        if (has_gang() && now_ == server_back_[i]) start_server(i);
      if (now_ == gang_ends_ && has_gang()) end_gang();
      if (has_gang()) second(std::nullopt);
    }
    Whole whole(plan_of(1));
    for (std::int64_t step = 0; step < workers_[0]->step(); ++step)
      whole.make(step, kReduction, step % kGradients);
    for (const auto& worker : workers_) {
      if (worker->step() != workers_[0]->step()) return "a worker is behind";
      if (worker->weights() != whole.weights) return "the weights differ";
    }
    return breach_;
  }

  const unsigned seed_;
  const Plan plan_ = plan_of(kServers);
  Faults faults_;
  Course course_;
  std::unique_ptr<SimulatedNetwork> network_;
  std::vector<std::unique_ptr<SyncTraining>> servers_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<int> incarnations_;
  std::map<int, int> server_back_;  // second
  Frozen frozen_;
  bool all_begun_ = false;
  int now_ = 0, gang_back_ = 0, gang_ends_ = 0, gangs_ = 0, halted_ = 0, last_progress_ = 0;
  std::int64_t steps_ = 0, steps_in_time_ = 0;
  std::optional<std::string> breach_;
};

// Over all seeds, of each of which nothing hangs, and no push is lost or counts twice.
void expect_goodput(unsigned first, unsigned last) {
  constexpr int kEvery = 180;  // seconds
  Chaos calm(1, 0);
  EXPECT_EQ(calm.run(), std::nullopt);
  double steps = 0, seconds = 0, left = 0;
  for (unsigned seed = first; seed <= last; ++seed) {
    Chaos chaos(seed, kEvery);
    EXPECT_EQ(chaos.run(), std::nullopt) << "seed " << seed;
    steps += static_cast<double>(chaos.steps());
    seconds += kSecondsOfRun;
    left += chaos.seconds_left();
  }
  const Goodput goodput{steps / seconds, steps / left};
  fmt::print("sync: goodput {}\n", goodput.text());
  EXPECT_GE(goodput.of_left, 0.9);
}

TEST(SyncChaos, half_an_hour_of_faults) { expect_goodput(1, 4); }
TEST(SyncChaos, DISABLED_days_of_faults) { expect_goodput(5, 100); }

}  // namespace
}  // namespace coxswain::ps::sync_world
