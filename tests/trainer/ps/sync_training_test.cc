#include "trainer/ps/sync_training.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "tests/trainer/ps/simulated_links.h"
#include "tests/trainer/ps/whole.h"
#include "trainer/ps/push_encoder.h"
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
  Worker(int rank, const Plan& plan, const comm::ReductionPlan& reduction, std::int64_t steps,
         const compress::Codec& codec)
      : rank_(rank),
        plan_(plan),
        reduction_(reduction),
        steps_(steps),
        weights_(static_cast<std::size_t>(plan.layout.size()), 0.5F),
        slot_(weights_.size()),
        blocks_(plan.map.cut(0, plan.layout.size())),
        encoder_(plan, codec),
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
        encoder_.finish_step(client_.outcome()[backend::kUpdated] > 0);
        if (step_ + 1 == exact_from) encoder_.push_exactly();
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
  std::int64_t exact_from = -1;  // the first step that is pushed without the codec

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
                    encoder_.encode(block.offset, std::span(parts_[i]).subspan(
                                                      static_cast<std::size_t>(block.offset),
                                                      static_cast<std::size_t>(block.length)))});
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
  PushEncoder encoder_;
  SyncClient client_;
  Phase phase_ = Phase::kNew;
  std::int64_t step_ = 0;
  std::size_t next_block_ = 0;
};

constexpr std::int64_t kSteps = 5;

class World {
 public:
  World(int servers, const comm::ReductionPlan& reduction, std::int64_t steps, unsigned seed,
        const compress::Codec& codec = {})
      : network(seed), plan_(plan_of(servers)), reduction_(reduction), codec_(codec) {
    const int num_workers = static_cast<int>(reduction.parts_of_rank.size());
    servers_.resize(static_cast<std::size_t>(servers));
    incarnations_.resize(servers_.size(), -1);
    for (int i = 0; i < servers; ++i) start_server(i);
    for (int i = 0; i < num_workers; ++i) {
      workers.push_back(std::make_unique<Worker>(i, plan_, reduction, steps, codec));
      workers.back()->client().use(network.add("worker " + std::to_string(i),
                                               hello_of("worker", i, num_workers),
                                               workers.back()->client()));
    }
  }

  bool is_done() const { return std::ranges::all_of(workers, &Worker::is_done); }

  // In the place of the one before.
  void start_server(int index) {
    const auto i = static_cast<std::size_t>(index);
    ServerOptions options{
        hello_of("server", index, static_cast<int>(reduction_.parts_of_rank.size())),
        addresses(static_cast<int>(servers_.size()))};
    options.hello.incarnation = ++incarnations_[i];
    auto server = std::make_unique<SyncTraining>(options, SyncOptions{.reduction = reduction_,
                                                                      .rule = kRule,
                                                                      .num_slots = 1,
                                                                      .codec = codec_,
                                                                      .window = 1 << 14});
    net::Links& links = network.add(to_text(address_of(index)), options.hello, *server);
    servers_[i] = std::move(server);
    servers_[i]->use(links);
  }

  bool all_safe() const { return std::ranges::all_of(servers_, &SyncTraining::is_safe); }
  const SyncTraining& server(int index) const { return *servers_[static_cast<std::size_t>(index)]; }

  // One of them dies and comes back empty, if it may.
  void kill_one() {
    if (!all_safe() || kills == 20) return;  // it must get somewhere in between
    ++kills;
    start_server(static_cast<int>(network.draw(servers_.size())));
  }

  // Until all workers are done. False: nothing happens any more.
  bool run(int breaks_in_1000, int kills_in_1000) {
    bool all_begun = false;
    for (int turn = 0; turn < 1'000'000; ++turn) {
      if (is_done()) return true;
      workers[static_cast<std::size_t>(network.draw(workers.size()))]->act(all_begun);
      network.happen();
      if (network.draw(1000) < breaks_in_1000) network.break_one();
      if (network.draw(1000) < kills_in_1000) kill_one();
      for (const auto& server : servers_)
        if (server->refused()) ADD_FAILURE() << server->refused()->why;
    }
    return false;
  }

  int kills = 0;

  SimulatedNetwork network;
  std::vector<std::unique_ptr<Worker>> workers;

 private:
  const Plan plan_;
  const comm::ReductionPlan reduction_;
  const compress::Codec codec_;
  std::vector<std::unique_ptr<SyncTraining>> servers_;
  std::vector<int> incarnations_;
};

// Runs it, and compares with one process.
void expect_the_bits_of_one_process(World& world, const comm::ReductionPlan& reduction, int breaks,
                                    int kills, Whole whole = Whole(plan_of(1))) {
  ASSERT_TRUE(world.run(breaks, kills)) << "stuck";
  for (std::int64_t step = 0; step < kSteps; ++step) whole.make(step, reduction);
  for (const auto& worker : world.workers) {
    EXPECT_EQ(worker->weights(), whole.weights);
    EXPECT_EQ(worker->outcomes, world.workers[0]->outcomes);
  }
  EXPECT_EQ(world.workers[0]->slot(), whole.slot);
}

TEST(SyncTraining, comes_to_the_bits_of_one_process_whatever_connections_break) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const auto reduction = seed % 2 == 0 ? comm::in_rank_order(1 + static_cast<int>(seed / 2 % 3))
                                         : comm::halving_tree(8, 3);
    World world(1 + static_cast<int>(seed / 3 % 3), reduction, kSteps, seed);
    expect_the_bits_of_one_process(world, reduction, seed % 4 == 0 ? 0 : 10, 0);
  }
}

TEST(SyncTraining, loses_nothing_with_a_server_that_dies_and_comes_back_empty) {
  int kills = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const auto reduction = comm::in_rank_order(1 + static_cast<int>(seed % 3));
    World world(2 + static_cast<int>(seed / 3 % 3), reduction, kSteps, seed);
    expect_the_bits_of_one_process(world, reduction, seed % 2 == 0 ? 0 : 5, 3);
    kills += world.kills;
  }
  EXPECT_GT(kills, 60);
}

constexpr std::int64_t kFirstGradient = 48;  // after small_layout()'s statistics

// What one process comes to whose gradients went through a codec, block by block.
Whole whole_through(const compress::Codec& codec, int servers, std::int64_t exact_from = kSteps) {
  Whole whole(plan_of(1));
  whole.pushed = [codec, exact_from, map = plan_of(servers).map,
                  residuals = std::map<int, Floats>()](std::int64_t step, int part) mutable {
    Floats gradients = gradients_of(step, part);
    Floats& residual = residuals[part];
    residual.resize(gradients.size());
    const std::int64_t end = std::ssize(gradients) - tensor::kControlFloats;
    for (const Piece& block : map.cut(kFirstGradient, end - kFirstGradient)) {
      const auto of = [&](Floats& all) {
        return std::span(all).subspan(static_cast<std::size_t>(block.offset),
                                      static_cast<std::size_t>(block.length));
      };
      const compress::Codec now = step < exact_from ? codec : compress::Codec{};
      std::vector<std::byte> bytes(
          static_cast<std::size_t>(compress::encoded_bytes(now, block.length)));
      compress::encode(now, of(gradients), of(residual), bytes, of(residual));
      compress::decode(now, bytes, of(gradients));
    }
    return gradients;
  };
  return whole;
}

TEST(SyncTraining, comes_to_the_bits_of_one_process_through_every_codec) {
  int kills = 0;
  unsigned seed = 0;
  for (const auto& [kind, word] : words_of(Compression{}))
    for (const int servers : {1, 2, 3, 2}) {
      SCOPED_TRACE(fmt::format("{}: {} servers, seed {}", word, servers, ++seed));
      const compress::Codec codec{.kind = kind, .threshold = 0.7F};
      const auto reduction = comm::in_rank_order(1 + static_cast<int>(seed % 3));
      World world(servers, reduction, kSteps, seed, codec);
      const bool disturbed = servers > 1;
      expect_the_bits_of_one_process(world, reduction, disturbed ? 10 : 0, disturbed ? 3 : 0,
                                     whole_through(codec, servers));
      kills += world.kills;
    }
  EXPECT_GT(kills, 10);
}

TEST(SyncTraining, goes_on_without_a_codec_that_all_workers_leave_at_one_step) {
  for (unsigned seed = 1; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const compress::Codec codec{.kind = Compression::kTwoBit, .threshold = 0.7F};
    const auto reduction = comm::in_rank_order(2);
    World world(2, reduction, kSteps, seed, codec);
    for (const auto& worker : world.workers) worker->exact_from = 2;
    expect_the_bits_of_one_process(world, reduction, 10, 3, whole_through(codec, 2, 2));
  }
}

TEST(SyncTraining, gives_up_when_two_neighbours_come_back_at_once) {
  const auto reduction = comm::in_rank_order(2);
  World world(3, reduction, kSteps, 1);
  bool all_begun = false;
  while (!world.all_safe()) {
    world.workers[0]->act(all_begun);
    world.network.happen();
  }
  world.start_server(0);
  world.start_server(1);
  for (int i = 0; i < 10000; ++i) world.network.happen();
  ASSERT_TRUE(world.server(0).refused());
  EXPECT_EQ(world.server(0).refused()->code, ExitCode::kPeerLost);
  EXPECT_EQ(world.server(0).refused()->why,
            "what server 0 held is lost, since server 1 came back, too: the job goes on from its "
            "checkpoint");
}

}  // namespace
}  // namespace coxswain::ps
