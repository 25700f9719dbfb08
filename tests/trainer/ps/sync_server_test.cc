#include "trainer/ps/sync_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>

#include "tests/trainer/ps/whole.h"
#include "trainer/contract/error.h"

namespace coxswain::ps {
namespace {

// Servers and workers in one place, and what they have said to each other and not yet heard.
class SyncWorld {
 public:
  SyncWorld(int servers, const comm::ReductionPlan& reduction, std::int64_t window = 1 << 20)
      : plan_(plan_of(servers)), reduction_(reduction) {
    const int workers = static_cast<int>(reduction.parts_of_rank.size());
    received_.assign(static_cast<std::size_t>(workers),
                     Floats(static_cast<std::size_t>(plan_.layout.size())));
    outcomes_.resize(static_cast<std::size_t>(workers));
    for (int server = 0; server < servers; ++server) {
      outboxes_.push_back(std::make_unique<Outbox>(*this, server));
      servers_.push_back(
          std::make_unique<SyncServer>(plan_, server, reduction, kRule, window, *outboxes_.back()));
      std::ranges::fill(servers_.back()->shard().weights(), 0.5F);
      servers_.back()->copy_holds(0);
      if (server == plan_.map.control_server())
        std::ranges::fill(servers_.back()->shard().weights().last(tensor::kControlFloats), 0.0F);
    }
  }

  SyncServer& server(int index) { return *servers_[static_cast<std::size_t>(index)]; }
  const Plan& plan() const { return plan_; }
  const Floats& weights_of(int worker) const { return received_[static_cast<std::size_t>(worker)]; }
  const std::deque<backend::ControlFloats>& outcomes_of(int worker) const {
    return outcomes_[static_cast<std::size_t>(worker)];
  }

  // All pushes of a step, in the order of each worker, the workers' mixed by chance.
  std::vector<Push> pushes(std::int64_t step, std::mt19937& random) {
    std::vector<std::deque<Push>> of_worker(received_.size());
    for (const Piece& piece : plan_.map.cut(0, plan_.layout.size()))
      for (std::size_t worker = 0; worker < of_worker.size(); ++worker) {
        const int rank = static_cast<int>(worker);
        for (int i = 0; i < reduction_.parts_of_rank[worker]; ++i)
          of_worker[worker].push_back(
              {rank, step, reduction_.first_part(rank) + i, piece.offset, piece.length});
      }
    std::vector<Push> all;
    for (std::size_t left = of_worker.size(); left > 0;) {
      auto& one = of_worker[random() % of_worker.size()];
      if (one.empty()) continue;
      all.push_back(one.front());
      one.pop_front();
      if (one.empty()) --left;
    }
    return all;
  }

  // What a worker sends, whole; false: it must wait.
  bool push(const Push& push) {
    SyncServer& to = server(plan_.map.cut(push.offset, 1)[0].server);
    const auto answer = to.offer(push);
    if (answer.verdict == SyncServer::Verdict::kWait) return false;
    if (answer.verdict == SyncServer::Verdict::kTake) {
      const Floats& all = gradients_of(push.step, push.part);
      std::copy_n(all.begin() + push.offset, push.length, answer.memory.begin());
      if (spoil) answer.memory[0] = spoil(push, answer.memory[0]);
      to.received(push);
    }
    return true;
  }

  void tell_terms(std::int64_t step) {
    for (auto& server : servers_) server->terms(step, terms_of(step));
  }

  // What servers have said to each other, in any order.
  void deliver(std::mt19937& random) {
    while (!said_.empty()) {
      const auto chosen = said_.begin() + static_cast<std::ptrdiff_t>(random() % said_.size());
      const auto one = *chosen;
      said_.erase(chosen);
      one();
    }
  }

  void make(std::int64_t step, std::mt19937& random) {
    auto waiting = pushes(step, random);
    const bool terms_first = random() % 2 == 0;
    if (terms_first) tell_terms(step);
    while (!waiting.empty()) {
      std::vector<Push> later;
      std::vector<bool> stands(received_.size());
      for (const Push& one : waiting) {
        auto&& stuck = stands[static_cast<std::size_t>(one.worker)];
        if (stuck || !push(one)) {
          stuck = true;
          later.push_back(one);
        } else if (random() % 8 == 0) {
          EXPECT_TRUE(push(one)) << "again";
        }
      }
      ASSERT_LT(later.size(), waiting.size()) << "nobody goes on";
      waiting = std::move(later);
    }
    deliver(random);
    if (!terms_first) tell_terms(step);
    deliver(random);
  }

  std::function<float(const Push&, float)> spoil;

 private:
  class Outbox : public SyncOutbox {
   public:
    Outbox(SyncWorld& world, int server) : world_(world), server_(server) {}
    void ready(std::int64_t step, bool finite) override {
      world_.said_.push_back([this, step, finite] {
        world_.server(world_.plan_.map.control_server()).server_ready(server_, step, finite);
      });
    }
    void decided(std::int64_t step, bool updated) override {
      for (auto& server : world_.servers_)
        if (server.get() != &world_.server(server_))
          world_.said_.push_back(
              [to = server.get(), step, updated] { to->decision(step, updated); });
    }
    void outcome(std::optional<int> worker, std::int64_t, std::span<float> sums) override {
      for (int to = 0; to < static_cast<int>(world_.received_.size()); ++to)
        if (!worker || *worker == to)
          std::ranges::copy(sums,
                            world_.outcomes_[static_cast<std::size_t>(to)].emplace_back().begin());
    }
    void weights(std::optional<int> worker, std::int64_t, const Piece& piece,
                 std::span<float> floats) override {
      for (int to = 0; to < static_cast<int>(world_.received_.size()); ++to)
        if (!worker || *worker == to)
          std::ranges::copy(floats,
                            world_.received_[static_cast<std::size_t>(to)].begin() + piece.offset);
    }
    void has_room() override {}
    void copy_sums(std::int64_t, const Piece&, std::span<float>) override {}
    void copy_commit(std::int64_t step, bool, const optim::UpdateStep&) override {
      world_.said_.push_back([this, step] { world_.server(server_).copy_holds(step + 1); });
    }

   private:
    SyncWorld& world_;
    int server_;
  };

  const Plan plan_;
  const comm::ReductionPlan reduction_;
  std::vector<std::unique_ptr<Outbox>> outboxes_;
  std::vector<std::unique_ptr<SyncServer>> servers_;
  std::vector<Floats> received_;
  std::vector<std::deque<backend::ControlFloats>> outcomes_;
  std::deque<std::function<void()>> said_;
};

TEST(SyncServer, comes_to_the_bits_of_one_process_for_any_number_of_servers) {
  for (const auto& reduction :
       {comm::in_rank_order(1), comm::in_rank_order(4), comm::halving_tree(8, 3)})
    for (const int servers : {1, 2, 3, 5})
      for (const std::int64_t window : {1, 1 << 14, 1 << 20}) {
        std::mt19937 random(7);
        SyncWorld world(servers, reduction, window);
        Whole whole(world.plan());
        for (std::int64_t step = 0; step < 3; ++step) {
          world.make(step, random);
          whole.make(step, reduction);
        }
        for (int worker = 0; worker < static_cast<int>(reduction.parts_of_rank.size()); ++worker) {
          ASSERT_EQ(world.weights_of(worker), whole.weights)
              << servers << " servers, window " << window;
          ASSERT_EQ(world.outcomes_of(worker).size(), 3U);
          EXPECT_EQ(world.outcomes_of(worker)[0][2],
                    8.0F * static_cast<float>(reduction.total_parts()));
          EXPECT_EQ(world.outcomes_of(worker)[0][6], 1.0F) << "updated";
        }
      }
}

TEST(SyncServer, a_step_that_is_not_finite_on_one_server_changes_nothing_on_any) {
  std::mt19937 random(3);
  SyncWorld world(3, comm::in_rank_order(2));
  world.make(0, random);
  const Floats before = world.weights_of(0);
  world.spoil = [](const Push& push, float value) {
    return push.step == 1 && push.part == 1 && push.offset == 0 ? INFINITY : value;
  };
  world.make(1, random);
  EXPECT_EQ(world.weights_of(0), before);
  EXPECT_EQ(world.outcomes_of(1)[1][6], 0.0F) << "updated";
  world.make(2, random);
  EXPECT_NE(world.weights_of(0), before);
  EXPECT_EQ(world.server(0).step(), 3);
}

TEST(SyncServer, who_comes_back_in_mid_step_changes_nothing) {
  std::mt19937 random(5);
  const auto reduction = comm::in_rank_order(2);
  SyncWorld world(2, reduction);
  Whole whole(world.plan());
  whole.make(0, reduction);
  auto pushes = world.pushes(0, random);
  const std::size_t half = pushes.size() / 2;
  for (std::size_t i = 0; i < half; ++i) ASSERT_TRUE(world.push(pushes[i]));
  // Of the next one the memory was given, and the connection broke.
  const Push& cut = pushes[half];
  SyncServer& server = world.server(world.plan().map.cut(cut.offset, 1)[0].server);
  EXPECT_EQ(server.offer(cut).verdict, SyncServer::Verdict::kTake);
  server.asks_again(cut.worker, 0);
  for (const Push& one : pushes) ASSERT_TRUE(world.push(one)) << "all of it once more";
  world.tell_terms(0);
  world.deliver(random);
  EXPECT_EQ(world.weights_of(0), whole.weights);
  // The weights did not arrive: they are sent again.
  EXPECT_EQ(world.outcomes_of(1).size(), 1U);
  for (int i = 0; i < 2; ++i) world.server(i).asks_again(1, 0);
  EXPECT_EQ(world.outcomes_of(1).size(), 2U);
  EXPECT_EQ(world.weights_of(1), whole.weights);
}

TEST(SyncServer, refuses_what_no_worker_of_its_job_pushes) {
  SyncWorld world(2, comm::in_rank_order(2));
  const Piece piece = world.server(0).shard().pieces()[1];
  const Push good{1, 0, 1, piece.offset, piece.length};
  Push other_part = good, other_block = good, cut = good, ahead = good;
  other_part.part = 0;
  other_block.offset += 1;
  cut.length -= 1;
  ahead.step = 1;
  for (const Push& bad : {other_part, other_block, cut, ahead})
    EXPECT_THROW(world.server(0).offer(bad), Error);
  EXPECT_EQ(world.server(0).offer(good).verdict, SyncServer::Verdict::kTake);
}

}  // namespace
}  // namespace coxswain::ps
