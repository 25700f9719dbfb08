#include "trainer/ps/async_training.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/trainer/ps/simulated_links.h"
#include "tests/trainer/ps/whole.h"
#include "trainer/ps/async_client.h"
#include "trainer/ps/push_encoder.h"

namespace coxswain::ps {
namespace {

constexpr std::int64_t kSteps = 40;
constexpr std::int64_t kFence = 13;  // steps between two cuts
constexpr int kWorkers = 3;

net::Hello hello_of(const char* role, int rank, int incarnation) {
  net::Hello hello;
  hello.role = role;
  hello.rank = rank;
  hello.world_size = kWorkers;
  hello.incarnation = incarnation;
  return hello;
}

std::vector<net::Address> addresses(int servers) {
  std::vector<net::Address> all;
  for (int i = 0; i < servers; ++i) all.push_back({"server", 9500 + i});
  return all;
}

// It says ones and zeros as they are.
constexpr compress::Codec kTwoBit{.kind = Compression::kTwoBit, .threshold = 1};

// One worker's loop, an act at a time. The gradients of step k are 1 in element k of each piece.
class Worker {
 public:
  Worker(int rank, const Plan& plan, const compress::Codec& codec, std::int64_t stop_after)
      : rank_(rank),
        stop_after_(stop_after),
        weights(static_cast<std::size_t>(plan.layout.size())),
        gradients_(weights.size()),
        plan_(plan),
        blocks_(plan.map.cut(0, plan.layout.size())),
        encoder_(plan, codec),
        client({.worker = rank, .servers = addresses(plan.map.servers())}, nullptr) {}

  bool is_done() const { return phase_ == Phase::kEnded; }

  void act() {
    switch (phase_) {
      case Phase::kNew:
        return begin();
      case Phase::kBeginning:
        if (client.has_all()) start();
        return;
      case Phase::kIdle:
        if (const auto event = client.take_event()) deal_with(*event);
        return;
      case Phase::kPushing:
        return push();
      case Phase::kAnswered:
        if (!client.has_all()) return;
        encoder_.finish_step(true);
        client.done(step_, {.samples = 1, .loss = 2, .correct = 0});
        client.ask_lease();
        phase_ = Phase::kIdle;
        return;
      case Phase::kPulling:
        if (client.has_all()) client.end(base_ < kSteps);
        if (client.has_all()) phase_ = Phase::kIdle;
        return;
      case Phase::kEnded:
        return;
    }
  }

 private:
  enum class Phase { kNew, kBeginning, kIdle, kPushing, kAnswered, kPulling, kEnded };

  void begin() {
    const auto standing = client.standing();
    if (!standing) return;
    if (standing->end) {
      phase_ = Phase::kEnded;
      return;
    }
    client.attach(plan_, {.weights = weights, .slots = {}});
    fence_ = standing->fences;
    if (fence_ == 0) {
      client.hand_over(0, 0);
    } else {
      base_ = std::stoll(standing->note);
      client.pull(base_);
    }
    phase_ = Phase::kBeginning;
  }

  void start() {
    if (rank_ == 0 && fence_ == 0) set_fence();
    client.ask_lease();
    client.ask_lease();
    phase_ = Phase::kIdle;
  }

  void set_fence() {
    client.set_fence(++fence_, std::min(base_ + kFence, kSteps), std::to_string(base_));
  }

  void deal_with(const Event& event) {
    if (event.kind == Event::Kind::kEnd) {
      phase_ = Phase::kEnded;
    } else if (event.kind == Event::Kind::kLease) {
      step_ = event.step;
      std::ranges::fill(gradients_, 0.0F);
      for (const Piece& block : blocks_)
        if (step_ < block.length) gradients_[static_cast<std::size_t>(block.offset + step_)] = 1;
      if (rank_ == 1 && step_ >= stop_after_) client.cut_now(true);
      client.begin(step_);
      next_block_ = 0;
      phase_ = Phase::kPushing;
    } else {
      EXPECT_EQ(event.totals.steps, event.step - base_) << "every step counts once";
      base_ = event.step;
      if (!event.stop && base_ < kSteps) return set_fence();
      client.pull(base_);
      phase_ = Phase::kPulling;
    }
  }

  void push() {
    const Piece& block = blocks_[next_block_];
    client.push(
        block.offset,
        encoder_.encode(block.offset, std::span(gradients_)
                                          .subspan(static_cast<std::size_t>(block.offset),
                                                   static_cast<std::size_t>(block.length))));
    if (++next_block_ < blocks_.size()) return;
    client.finish_push(optim::UpdateStep{.lr = 1});
    phase_ = Phase::kAnswered;
  }

  const int rank_;
  const std::int64_t stop_after_;

 public:
  Floats weights;

 private:
  Floats gradients_;
  const Plan plan_;
  const std::vector<Piece> blocks_;
  PushEncoder encoder_;

 public:
  AsyncClient client;
  std::int64_t base() const { return base_; }

 private:
  Phase phase_ = Phase::kNew;
  int fence_ = 0;
  std::int64_t base_ = 0;
  std::int64_t step_ = 0;
  std::size_t next_block_ = 0;
};

std::span<const Piece> trained(const std::vector<Piece>& pieces) {
  return std::span(pieces).subspan(1, pieces.size() / 2);
}

class World {
 public:
  World(int num_servers, std::optional<std::int64_t> staleness, std::int64_t window, unsigned seed,
        std::int64_t stop = kSteps)
      : network(seed), stop_after(stop), plan_(plan_of(num_servers, 0)) {
    if (seed % 2 == 1) codec_ = kTwoBit;
    AsyncOptions options;
    options.codec = codec_;
    options.staleness = staleness;
    options.window = window;
    for (int i = 0; i < num_servers; ++i) {
      servers.push_back(std::make_unique<AsyncTraining>(
          ServerOptions{hello_of("server", i, 0), addresses(num_servers)}, options));
      servers.back()->use(network.add("server:" + std::to_string(9500 + i),
                                      hello_of("server", i, 0), *servers.back()));
    }
    for (int i = 0; i < kWorkers; ++i) start_worker(i);
  }

  // In the place of the one before.
  void start_worker(int rank) {
    const std::string address = "worker " + std::to_string(rank);
    network.remove(address);
    auto& worker = workers[rank];
    worker = std::make_unique<Worker>(rank, plan_, codec_, stop_after);
    worker->client.use(
        network.add(address, hello_of("worker", rank, ++incarnations_[rank]), worker->client));
  }

  bool is_done() const {
    return std::ranges::all_of(workers, [](const auto& one) { return one.second->is_done(); });
  }

  // Breaks connections and workers, one in so many acts; 0: nothing breaks.
  void run(std::size_t breaks, std::size_t deaths) {
    for (int turn = 0; !is_done(); ++turn) {
      ASSERT_LT(turn, 3'000'000) << "it goes on for ever";
      if (breaks > 0 && network.draw(breaks) == 0) network.break_one();
      if (deaths > 0 && network.draw(deaths) == 0) {
        const int rank = static_cast<int>(network.draw(kWorkers));
        if (!workers.at(rank)->is_done()) start_worker(rank);
      }
      if (network.draw(3) > 0) network.happen();
      workers.at(static_cast<int>(network.draw(kWorkers)))->act();
    }
  }

  // Each of `steps` has changed the weights of all servers, and nothing else has.
  void expect_steps(std::int64_t steps) {
    for (const auto& server : servers) EXPECT_EQ(server->updates(), steps);
    const Floats& weights = workers.at(0)->weights;
    const std::vector<Piece> pieces = plan_.map.cut(0, plan_.layout.size());
    for (const Piece& piece : trained(pieces))
      for (std::int64_t step = 0; step < kSteps; ++step)
        EXPECT_EQ(weights[static_cast<std::size_t>(piece.offset + step)] < 0, step < steps)
            << "step " << step << " on server " << piece.server;
  }

  SimulatedNetwork network;
  std::vector<std::unique_ptr<AsyncTraining>> servers;
  std::map<int, std::unique_ptr<Worker>> workers;
  const std::int64_t stop_after;  // worker 1 asks to stop then

 private:
  const Plan plan_;
  compress::Codec codec_;
  std::map<int, int> incarnations_;
};

struct Case {
  const char* name;
  int servers;
  std::optional<std::int64_t> staleness;
  std::int64_t window;
  std::size_t breaks;
  std::size_t deaths;
};

TEST(AsyncTraining, makes_every_step_once) {
  const Case cases[] = {
      {"one server", 1, std::nullopt, 1 << 20, 0, 0},
      {"three servers", 3, std::nullopt, 1 << 20, 0, 0},
      {"room for one step", 2, std::nullopt, 1, 0, 0},
      {"lockstep", 2, 0, 1 << 20, 0, 0},
      {"bounded", 2, 3, 1, 0, 0},
      {"connections break", 3, std::nullopt, 1 << 20, 2000, 0},
      {"connections break, with a bound and room for one step", 2, 1, 1, 2000, 0},
      {"workers die", 2, std::nullopt, 1 << 20, 0, 4000},
      {"all of it", 2, 2, 1, 4000, 6000},
  };
  for (const Case& one : cases)
    for (unsigned seed = 0; seed < 20; ++seed) {
      SCOPED_TRACE(testing::Message() << one.name << ", seed " << seed);
      World world(one.servers, one.staleness, one.window, seed);
      world.run(one.breaks, one.deaths);
      if (testing::Test::HasFatalFailure()) return;
      for (const auto& server : world.servers) EXPECT_EQ(server->updates(), kSteps);
      EXPECT_EQ(world.servers[0]->step(), kSteps);
      // Who came after the end knows nothing of the weights.
      if (one.deaths == 0) world.expect_steps(kSteps);
    }
}

TEST(AsyncTraining, stops_after_what_was_leased) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World world(2, std::nullopt, 1 << 20, seed, 10);
    world.run(2000, 0);
    if (testing::Test::HasFatalFailure()) return;
    const std::int64_t done = world.workers.at(0)->base();
    EXPECT_GE(done, 10);
    EXPECT_LT(done, kSteps);
    world.expect_steps(done);
  }
}

// Nobody replaces it, and the bound does not wait for it.
TEST(AsyncTraining, goes_on_without_a_worker) {
  World world(2, 0, 1, 1);
  for (int turn = 0; world.servers[0]->step() < 5; ++turn) {
    ASSERT_LT(turn, 1'000'000);
    world.network.happen();
    world.workers.at(turn % kWorkers)->act();
  }
  world.network.remove("worker 2");
  world.workers.erase(2);
  for (int turn = 0; !world.is_done(); ++turn) {
    ASSERT_LT(turn, 1'000'000);
    world.network.happen();
    world.workers.at(turn % 2)->act();
  }
  world.expect_steps(kSteps);
}

}  // namespace
}  // namespace coxswain::ps
