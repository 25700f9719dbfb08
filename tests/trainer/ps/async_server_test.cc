#include "trainer/ps/async_server.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "tests/trainer/ps/whole.h"
#include "trainer/contract/error.h"

namespace coxswain::ps {
namespace {

using Verdict = PushTaker::Verdict;

optim::UpdateStep rate(float lr) {
  optim::UpdateStep terms;
  terms.lr = lr;
  return terms;
}

// A server, the only one or one of two, without momentum and decay: a step's gradients are 1 in an
// element of its own of each piece of trained weights, else 0.
class OneServer : private AsyncOutbox {
 public:
  explicit OneServer(std::int64_t window = 1 << 20, int servers = 1)
      : plan_(plan_of(servers, 0)), server_(plan_, 0, {}, window, *this) {
    server_.start(StepSet(0), 0);
  }

  AsyncServer& operator*() { return server_; }
  AsyncServer* operator->() { return &server_; }
  std::size_t pieces() { return server_.shard().pieces().size(); }

  Push push(int worker, std::int64_t step, std::size_t index) {
    const Piece& piece = server_.shard().pieces()[index];
    return {.worker = worker, .step = step, .offset = piece.offset, .length = piece.length};
  }
  Verdict send(int worker, std::int64_t step, std::size_t index) {
    const Push one = push(worker, step, index);
    const auto answer = server_.offer(one);
    if (answer.verdict != Verdict::kTake) return answer.verdict;
    std::ranges::fill(answer.memory, 0.0F);
    answer.memory[static_cast<std::size_t>(step)] = 1;
    server_.received(one);
    return answer.verdict;
  }
  void send_all(int worker, std::int64_t step, float lr = 1) {
    for (std::size_t i = 0; i < pieces(); ++i) send(worker, step, i);
    server_.pushed(worker, step, versions_[worker], rate(lr));
  }
  // What a step has changed a piece of trained weights by.
  float change(std::int64_t step) {
    const Piece& piece = server_.shard().pieces()[2];
    return -Shard::of(server_.shard().weights(), piece)[static_cast<std::size_t>(step)];
  }
  int answers(int worker) { return answers_[worker]; }

  struct Forwarded {
    std::int64_t made;
    std::int64_t step;
    float rate;
    bool operator==(const Forwarded&) const = default;
  };
  std::vector<Forwarded> forwarded;

 private:
  void weights(int worker, std::int64_t, const Piece& piece, std::span<float>) override {
    if (piece.offset == 0) ++answers_[worker];
    versions_[worker] = version_of(server_.update_count());
  }
  void copy(std::int64_t made, std::int64_t step, std::span<float>,
            const std::optional<optim::UpdateStep>& update) override {
    forwarded.push_back({made, step, update ? update->lr : 0});
  }
  void has_room() override {}

  const Plan plan_;
  std::map<int, int> answers_;
  std::map<int, int> versions_;
  AsyncServer server_;
};

TEST(AsyncServer, applies_a_step_when_all_of_it_is_there) {
  OneServer server;
  for (std::size_t i = 0; i < server.pieces(); ++i) {
    EXPECT_EQ(server->update_count(), 0);
    server.send(0, 0, i);
  }
  EXPECT_EQ(server->update_count(), 0) << "the worker may still find it not finite";
  server->pushed(0, 0, 0, rate(0.5F));
  EXPECT_EQ(server.change(0), 0.5F);
  EXPECT_EQ(server.answers(0), 1);
}

TEST(AsyncServer, applies_a_step_once_whoever_pushes_it_again) {
  OneServer server;
  server.send_all(0, 0);
  server.send_all(0, 0);
  server.send_all(1, 0);
  EXPECT_EQ(server->update_count(), 1);
  EXPECT_EQ(server.change(0), 1.0F);
  EXPECT_EQ(server.answers(0), 2);
  EXPECT_EQ(server.answers(1), 1) << "it goes on from the weights that there are";
}

TEST(AsyncServer, leaves_nothing_of_a_worker_that_dies) {
  OneServer server;
  for (std::size_t i = 0; i + 1 < server.pieces(); ++i) server.send(0, 0, i);
  server->lost_worker(0);
  server->pushed(0, 0, 0, rate(1));
  EXPECT_EQ(server->update_count(), 0);
  server.send_all(1, 0);
  EXPECT_EQ(server.change(0), 1.0F);
}

TEST(AsyncServer, changes_nothing_by_a_step_that_is_not_finite) {
  OneServer server;
  for (std::size_t i = 0; i < server.pieces(); ++i) server.send(0, 0, i);
  server->pushed(0, 0, 0, std::nullopt);
  EXPECT_EQ(server->update_count(), 0);
  EXPECT_EQ(server.answers(0), 1);
  EXPECT_EQ(server->done().low(), 1);
}

TEST(AsyncServer, divides_the_rate_by_the_staleness) {
  OneServer server;
  for (const int worker : {0, 1, 2}) server->pull(worker, 0);
  server.send_all(0, 0);  // on the newest weights
  server.send_all(1, 1);  // one update behind
  server.send_all(2, 2);
  server.send_all(0, 3);  // two of others since its own
  EXPECT_EQ(server.change(0), 1.0F);
  EXPECT_EQ(server.change(1), 1.0F);
  EXPECT_EQ(server.change(2), 0.5F);
  EXPECT_EQ(server.change(3), 0.5F);
  EXPECT_EQ(server->staleness(2), 2);
}

TEST(AsyncServer, takes_as_many_steps_as_there_is_room_for_in_the_order_of_asking) {
  OneServer server(1);  // of one there is always room
  EXPECT_EQ(server.send(0, 0, 0), Verdict::kTake);
  EXPECT_EQ(server.send(2, 2, 0), Verdict::kWait);
  EXPECT_EQ(server.send(1, 1, 0), Verdict::kWait);
  server.send_all(0, 0);
  EXPECT_EQ(server.send(0, 3, 0), Verdict::kWait);
  EXPECT_EQ(server.send(1, 1, 0), Verdict::kWait) << "another has waited longer";
  EXPECT_EQ(server.send(2, 2, 0), Verdict::kTake);
  server->lost_worker(2);
  EXPECT_EQ(server.send(1, 1, 0), Verdict::kTake);
}

TEST(AsyncServer, lets_nobody_wait_for_who_waits_no_more) {
  OneServer server(1);
  server.send(0, 0, 0);
  EXPECT_EQ(server.send(1, 0, 0), Verdict::kWait);
  EXPECT_EQ(server.send(2, 1, 0), Verdict::kWait);
  server.send_all(0, 0);
  EXPECT_EQ(server.send(1, 0, 0), Verdict::kIgnore) << "another has made it";
  EXPECT_EQ(server.send(2, 1, 0), Verdict::kTake);
}

TEST(AsyncServer, answers_when_the_copy_has_made_the_step) {
  OneServer server(1 << 20, 2);
  server->copy_holds(0);
  server.send_all(0, 0);
  server.send_all(1, 2, 0.5F);
  EXPECT_EQ(server->update_count(), 2);
  EXPECT_EQ(server.forwarded, (std::vector<OneServer::Forwarded>{{0, 0, 1.0F}, {1, 2, 0.5F}}));
  EXPECT_EQ(server.answers(0) + server.answers(1), 0);
  server->copy_holds(1);
  EXPECT_EQ(server.answers(0), 1);
  EXPECT_EQ(server.answers(1), 0);
  server.send_all(2, 2);
  EXPECT_EQ(server.answers(2), 0) << "another has pushed it, and the copy has it not yet";
  server->copy_holds(2);
  EXPECT_EQ(server.answers(1), 1);
  EXPECT_EQ(server.answers(2), 1);
  EXPECT_EQ(server.forwarded.size(), 2U);
}

TEST(AsyncServer, makes_no_step_while_there_is_no_copy) {
  OneServer server(1 << 20, 2);
  server.send_all(0, 0);
  EXPECT_EQ(server->update_count(), 0) << "the shard is on its way";
  server->copy_holds(0);
  EXPECT_EQ(server->update_count(), 1);
  server->copy_holds(std::nullopt);
  server.send_all(1, 1);
  EXPECT_EQ(server->update_count(), 1);
  EXPECT_EQ(server.answers(0), 0);
  server->copy_holds(1);  // all of it was sent again
  EXPECT_EQ(server.answers(0), 1);
  EXPECT_EQ(server->update_count(), 2);
  EXPECT_EQ(server.answers(1), 0);
}

TEST(AsyncServer, has_room_for_no_more_than_its_copy_keeps_up_with) {
  OneServer server(1, 2);
  server->copy_holds(0);
  server.send_all(0, 0);
  EXPECT_EQ(server.send(1, 1, 0), Verdict::kWait);
  server->copy_holds(1);
  EXPECT_EQ(server.send(1, 1, 0), Verdict::kTake);
}

TEST(AsyncServer, takes_weights_that_are_newer_than_its_own_for_new_ones) {
  EXPECT_EQ(updates_since(version_of(7), 10), 3);
  EXPECT_EQ(updates_since(version_of(12), 10), 0) << "it has come back without them";
  EXPECT_EQ(updates_since(version_of(kVersions - 1), kVersions + 2), 3);
}

TEST(AsyncServer, refuses_what_is_no_block_of_its_own) {
  OneServer server;
  Push push = server.push(0, 0, 1);
  push.length -= 1;
  EXPECT_THROW(server->offer(push), Error);
}

// Workers that push steps of theirs, again, of others, and die in between.
TEST(AsyncServer, applies_every_step_once_in_any_order) {
  constexpr std::int64_t kSteps = 30;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    OneServer server(random() % 2 == 0 ? 1 : 1 << 20);
    std::map<int, std::pair<std::int64_t, std::size_t>> at;  // each worker's step and piece
    for (int turn = 0; server->done().low() < kSteps; ++turn) {
      ASSERT_LT(turn, 1'000'000);
      const int worker = static_cast<int>(random() % 4);
      if (random() % 200 == 0) {
        server->lost_worker(worker);
        at.erase(worker);
      }
      if (!at.contains(worker))
        at[worker] = {static_cast<std::int64_t>(random() % 3) + server->done().low(), 0};
      auto& [step, piece] = at[worker];
      if (step >= kSteps) step = kSteps - 1;
      if (piece < server.pieces()) {
        if (server.send(worker, step, piece) != Verdict::kWait) ++piece;
        continue;
      }
      server->pushed(worker, step, 0, rate(1));
      at.erase(worker);
    }
    EXPECT_EQ(server->update_count(), kSteps);
    for (std::int64_t step = 0; step < kSteps; ++step) EXPECT_GT(server.change(step), 0) << step;
  }
}

}  // namespace
}  // namespace coxswain::ps
