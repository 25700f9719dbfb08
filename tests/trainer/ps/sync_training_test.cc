#include "trainer/ps/sync_training.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/trainer/ps/simulated_links.h"
#include "tests/trainer/ps/whole.h"
#include "trainer/ps/sync_client.h"

namespace coxswain::ps {
namespace {

net::Address address_of(int server) { return {"server", 9500 + server}; }

net::Hello hello_of(const char* role, int rank, int workers) {
  net::Hello hello;
  hello.role = role;
  hello.rank = rank;
  hello.world_size = workers;
  return hello;
}

std::vector<net::Address> addresses(int servers) {
  std::vector<net::Address> all;
  for (int i = 0; i < servers; ++i) all.push_back(address_of(i));
  return all;
}

// One worker's loop, an act at a time.
class Worker {
 public:
  Worker(int rank, const Plan& plan, const comm::ReductionPlan& reduction, std::int64_t steps)
      : rank_(rank),
        plan_(plan),
        reduction_(reduction),
        steps_(steps),
        weights_(static_cast<std::size_t>(plan.layout.size()), 0.5F),
        slot_(weights_.size()),
        blocks_(plan.map.cut(0, plan.layout.size())),
        client_({.worker = rank, .servers = addresses(plan.map.servers())}, plan,
                {.weights = weights_, .slots = {slot_}}) {
    std::fill(weights_.end() - tensor::kControlFloats, weights_.end(), 0.0F);
    parts_.resize(
        static_cast<std::size_t>(reduction.parts_of_rank[static_cast<std::size_t>(rank)]));
  }

  SyncClient& client() { return client_; }
  const Floats& weights() const { return weights_; }
  const Floats& slot() const { return slot_; }
  bool is_done() const { return step_ == steps_ && phase_ == Phase::kAsked && client_.has_all(); }

  // `all_begun`: the barrier before the first step.
  void act(bool& all_begun) {
    switch (phase_) {
      case Phase::kNew:
        if (rank_ == 0) client_.hand_over(0, 0);
        phase_ = Phase::kHandingOver;
        return;
      case Phase::kHandingOver:
        if (rank_ == 0 && client_.has_all()) all_begun = true;
        if (all_begun) begin();
        return;
      case Phase::kPushing:
        return push();
      case Phase::kWaiting:
        if (!client_.has_all()) return;
        outcomes.push_back(client_.outcome());
        ++step_;
        if (step_ < steps_) return begin();
        if (rank_ == 0) client_.ask_slots();
        phase_ = Phase::kAsked;
        return;
      case Phase::kAsked:
        return;
    }
  }

  std::vector<backend::ControlFloats> outcomes;

 private:
  enum class Phase { kNew, kHandingOver, kPushing, kWaiting, kAsked };

  void begin() {
    client_.begin(step_, rank_ == 0 ? std::optional(terms_of(step_)) : std::nullopt);
    for (std::size_t i = 0; i < parts_.size(); ++i)
      parts_[i] = gradients_of(step_, reduction_.first_part(rank_) + static_cast<int>(i));
    next_block_ = 0;
    phase_ = Phase::kPushing;
  }

  void push() {
    const Piece& block = blocks_[next_block_];
    for (std::size_t i = 0; i < parts_.size(); ++i)
      client_.push({block.offset, reduction_.first_part(rank_) + static_cast<int>(i),
                    std::span(parts_[i]).subspan(static_cast<std::size_t>(block.offset),
                                                 static_cast<std::size_t>(block.length))});
    if (++next_block_ == blocks_.size()) phase_ = Phase::kWaiting;
  }

  const int rank_;
  const Plan plan_;
  const comm::ReductionPlan reduction_;
  const std::int64_t steps_;
  Floats weights_;
  Floats slot_;
  const std::vector<Piece> blocks_;
  std::vector<Floats> parts_;
  SyncClient client_;
  Phase phase_ = Phase::kNew;
  std::int64_t step_ = 0;
  std::size_t next_block_ = 0;
};

class World {
 public:
  World(int servers, const comm::ReductionPlan& reduction, std::int64_t steps, unsigned seed)
      : network(seed), plan_(plan_of(servers)), reduction_(reduction) {
    const int num_workers = static_cast<int>(reduction.parts_of_rank.size());
    for (int i = 0; i < servers; ++i) {
      ServerOptions options{hello_of("server", i, num_workers), addresses(servers)};
      servers_.push_back(std::make_unique<SyncTraining>(
          options,
          SyncOptions{.reduction = reduction, .rule = kRule, .num_slots = 1, .window = 1 << 14}));
      servers_.back()->use(network.add(to_text(address_of(i)), options.hello, *servers_.back()));
    }
    for (int i = 0; i < num_workers; ++i) {
      workers.push_back(std::make_unique<Worker>(i, plan_, reduction, steps));
      workers.back()->client().use(network.add("worker " + std::to_string(i),
                                               hello_of("worker", i, num_workers),
                                               workers.back()->client()));
    }
  }

  bool is_done() const { return std::ranges::all_of(workers, &Worker::is_done); }

  // Until all workers are done. False: nothing happens any more.
  bool run(double break_chance) {
    bool all_begun = false;
    int idle = 0;
    while (!is_done()) {
      workers[static_cast<std::size_t>(network.draw(workers.size()))]->act(all_begun);
      const bool moved = network.happen();
      idle = moved ? 0 : idle + 1;
      if (idle > 1000) return false;
      if (static_cast<double>(network.draw(1'000'000)) < 1e6 * break_chance) network.break_one();
    }
    return true;
  }

  SimulatedNetwork network;
  std::vector<std::unique_ptr<Worker>> workers;

 private:
  const Plan plan_;
  const comm::ReductionPlan reduction_;
  std::vector<std::unique_ptr<SyncTraining>> servers_;
};

TEST(SyncTraining, comes_to_the_bits_of_one_process_whatever_connections_break) {
  constexpr std::int64_t kSteps = 5;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const auto reduction = seed % 2 == 0 ? comm::in_rank_order(1 + static_cast<int>(seed / 2 % 3))
                                         : comm::halving_tree(8, 3);
    const int servers = 1 + static_cast<int>(seed / 3 % 3);
    World world(servers, reduction, kSteps, seed);
    ASSERT_TRUE(world.run(seed % 4 == 0 ? 0 : 0.01)) << "stuck, seed " << seed;
    Whole whole(plan_of(servers));
    for (std::int64_t step = 0; step < kSteps; ++step) whole.make(step, reduction);
    for (const auto& worker : world.workers) {
      EXPECT_EQ(worker->weights(), whole.weights) << "seed " << seed;
      EXPECT_EQ(worker->outcomes, world.workers[0]->outcomes) << "seed " << seed;
    }
    EXPECT_EQ(world.workers[0]->slot(), whole.slot) << "seed " << seed;
  }
}

}  // namespace
}  // namespace coxswain::ps
