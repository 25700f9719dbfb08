#include "trainer/ps/lease_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace coxswain::ps {
namespace {

using Step = std::optional<std::int64_t>;

TEST(StepSet, knows_what_is_done_in_any_order) {
  StepSet done(5);
  EXPECT_TRUE(done.contains(4));
  EXPECT_TRUE(done.insert(7));
  EXPECT_FALSE(done.insert(7));
  EXPECT_FALSE(done.contains(5));
  EXPECT_EQ(done.low(), 5);
  EXPECT_TRUE(done.insert(5));
  EXPECT_TRUE(done.insert(6));
  EXPECT_EQ(done.low(), 8);
  EXPECT_FALSE(done.insert(5));
}

TEST(LeaseBook, leases_each_step_once_up_to_the_fence) {
  LeaseBook book;
  book.open(3, 5);
  EXPECT_EQ(book.lease(0), Step()) << "nobody has joined";
  book.join(0);
  book.join(1);
  EXPECT_EQ(book.lease(0), Step(3));
  EXPECT_EQ(book.lease(1), Step(4));
  EXPECT_EQ(book.lease(0), Step());
  EXPECT_TRUE(book.finish(1, 4));
  EXPECT_FALSE(book.is_drained());
  EXPECT_TRUE(book.finish(0, 3));
  EXPECT_TRUE(book.is_drained());
}

TEST(LeaseBook, takes_back_what_a_worker_leaves_behind) {
  LeaseBook book;
  book.open(0, 3);
  book.join(0);
  book.join(1);
  EXPECT_EQ(book.lease(1), Step(0));
  EXPECT_EQ(book.lease(0), Step(1));
  book.leave(1);
  EXPECT_EQ(book.lease(0), Step(0));
  EXPECT_TRUE(book.finish(1, 0)) << "it has finished it all the same";
  EXPECT_FALSE(book.finish(0, 0));
  EXPECT_EQ(book.lease(0), Step(2));
}

TEST(LeaseBook, closes_behind_what_was_leased) {
  LeaseBook book;
  book.open(0, 100);
  book.join(0);
  book.lease(0);
  book.lease(0);
  book.close();
  EXPECT_EQ(book.fence(), 2);
  EXPECT_EQ(book.lease(0), Step());
  book.leave(0);
  book.join(1);
  EXPECT_EQ(book.lease(1), Step(0)) << "what was leased before is still to be made";
}

TEST(LeaseBook, names_whom_the_bound_waits_for) {
  LeaseBook book(1);
  book.open(0, 100);
  book.join(0);
  book.join(1);
  for (int i = 0; i < 2; ++i) book.finish(0, *book.lease(0));
  EXPECT_EQ(book.lease(0), Step());
  EXPECT_EQ(book.held_by(0), std::optional(1));
  EXPECT_EQ(book.held_by(1), std::nullopt);
  book.finish(1, *book.lease(1));
  EXPECT_EQ(book.lease(0), Step(3));
}

TEST(LeaseBook, does_not_wait_for_who_has_left) {
  LeaseBook book(0);
  book.open(0, 100);
  book.join(0);
  book.join(1);
  book.finish(0, *book.lease(0));
  EXPECT_EQ(book.held_by(0), std::optional(1));
  book.leave(1);
  EXPECT_EQ(book.lease(0), Step(1));
  book.finish(0, 1);
  book.join(1);  // with as many steps as the slowest
  EXPECT_EQ(book.held_by(0), std::nullopt);
}

// Workers that compute, die, come back and finish what was theirs, in random orders.
class Schedule {
 public:
  explicit Schedule(unsigned seed)
      : random_(seed), bound_(draw(4)), fence_(1 + draw(60)), book_(bound_) {
    book_.open(0, fence_);
  }

  void run() {
    for (int turn = 0; !book_.is_drained(); ++turn) {
      ASSERT_LT(turn, 100'000) << "it goes on for ever";
      const int worker = static_cast<int>(draw(4));
      const auto what = draw(20);
      if (what == 0 && here_.size() > 1) {
        leave(worker);
      } else if (what < 10) {
        ask(worker);
      } else {
        finish(worker);
      }
    }
    EXPECT_EQ(counted_, fence_) << "each step counts once";
  }

 private:
  struct Worker {
    std::int64_t finished = 0;
    std::vector<std::int64_t> leased = {};
  };

  std::int64_t draw(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<unsigned>(below));
  }
  std::int64_t slowest() const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const auto& [number, worker] : here_) least = std::min(least, worker.finished);
    return least;
  }

  void leave(int worker) {
    if (here_.erase(worker) > 0) book_.leave(worker);
  }

  void ask(int number) {
    if (!here_.contains(number)) {
      const std::int64_t start = here_.empty() ? 0 : slowest();
      here_[number] = {start};
      book_.join(number);
    }
    Worker& worker = here_[number];
    if (worker.leased.size() == 2) return;
    if (const auto step = book_.lease(number)) worker.leased.push_back(*step);
    // Of the step that it computes next.
    if (!worker.leased.empty()) {
      const auto ahead = worker.finished + std::ssize(worker.leased) - 1 - slowest();
      EXPECT_LE(ahead, bound_) << "worker " << number;
    }
  }

  void finish(int number) {
    const auto found = here_.find(number);
    if (found == here_.end() || found->second.leased.empty()) return;
    Worker& worker = found->second;
    if (book_.finish(number, worker.leased.front())) ++counted_;
    worker.leased.erase(worker.leased.begin());
    ++worker.finished;
  }

  std::mt19937 random_;
  const std::int64_t bound_;
  const std::int64_t fence_;
  LeaseBook book_;
  std::map<int, Worker> here_;
  std::int64_t counted_ = 0;
};

TEST(LeaseBook, never_exceeds_its_bound) {
  for (unsigned seed = 0; seed < 1000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Schedule(seed).run();
  }
}

}  // namespace
}  // namespace coxswain::ps
