#include "trainer/data/sampler.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "tests/support/test_flags.h"
#include "tests/trainer/data/data_files.h"

namespace coxswain::data {
namespace {

using coxswain::test::error_of;
using Ids = std::vector<std::int64_t>;

Ids copy(std::span<const std::int64_t> rows) { return {rows.begin(), rows.end()}; }

Ids range(std::int64_t first, std::int64_t last) {
  Ids ids(static_cast<std::size_t>(last - first));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

Ids sorted(Ids ids) {
  std::ranges::sort(ids);
  return ids;
}

// What one step trains on, over all ranks in rank order.
Ids step_rows(const EpochOrder& order, std::int64_t step, int world_size) {
  Ids ids;
  for (int rank = 0; rank < world_size; ++rank) {
    const auto rows = order.rank_rows(step, rank);
    ids.insert(ids.end(), rows.begin(), rows.end());
  }
  return ids;
}

Ids epoch_rows(const EpochOrder& order, int world_size) {
  Ids ids;
  for (std::int64_t step = 0; step < order.steps(); ++step) {
    const Ids rows = step_rows(order, step, world_size);
    EXPECT_EQ(static_cast<std::int64_t>(rows.size()), order.global_count(step));
    ids.insert(ids.end(), rows.begin(), rows.end());
  }
  return ids;
}

std::string text_of(const SamplerOptions& o) {
  return fmt::format("n={} B={} N={} split={} last={}", o.dataset_size, o.global_batch,
                     o.world_size, static_cast<int>(o.split), static_cast<int>(o.last_batch));
}

// Options over all sizes that matter: batches that fill, do not, exceed the data; more ranks than
// rows.
std::vector<SamplerOptions> grid() {
  std::vector<SamplerOptions> all;
  for (const std::int64_t n : {1, 2, 7, 10, 64, 100}) {
    for (const std::int64_t batch : {1, 2, 3, 8, 64, 101}) {
      for (const int world_size : {1, 2, 3, 4, 7, 8, 16}) {
        for (const Split split : {Split::kShuffle, Split::kContiguous, Split::kSplitBatch}) {
          if (split != Split::kShuffle && n < world_size) continue;
          all.push_back({n, batch, world_size, split, LastBatch::kKeep, 42});
        }
      }
    }
  }
  return all;
}

TEST(Sampler, uses_every_row_once_an_epoch_when_the_last_batch_is_kept) {
  for (const SamplerOptions& options : grid()) {
    SCOPED_TRACE(text_of(options));
    const int parts = options.split == Split::kShuffle ? 1 : options.world_size;
    const std::int64_t usable = options.dataset_size / parts * parts;
    for (const std::int64_t epoch : {0, 1, 5}) {
      const EpochOrder order(options, epoch);
      EXPECT_EQ(order.steps(), (usable + options.global_batch - 1) / options.global_batch);
      ASSERT_EQ(sorted(epoch_rows(order, options.world_size)), range(0, usable));
    }
  }
}

TEST(Sampler, gives_every_rank_its_share_of_each_step) {
  for (const SamplerOptions& options : grid()) {
    SCOPED_TRACE(text_of(options));
    const EpochOrder order(options, 3);
    for (std::int64_t step = 0; step < order.steps(); ++step) {
      const std::int64_t count = order.global_count(step);
      for (int rank = 0; rank < options.world_size; ++rank) {
        const auto rows = static_cast<std::int64_t>(order.rank_rows(step, rank).size());
        ASSERT_GE(rows, count / options.world_size - 1);
        ASSERT_LE(rows, count / options.world_size + 1);
        if (count % options.world_size == 0 && options.global_batch % options.world_size == 0) {
          ASSERT_EQ(rows, count / options.world_size);
        }
      }
    }
  }
}

TEST(Sampler, makes_full_batches_only_when_the_last_is_discarded) {
  for (SamplerOptions options : grid()) {
    const int parts = options.split == Split::kShuffle ? 1 : options.world_size;
    const std::int64_t usable = options.dataset_size / parts * parts;
    if (usable < options.global_batch) continue;
    SCOPED_TRACE(text_of(options));
    const Ids kept = epoch_rows(EpochOrder(options, 2), options.world_size);
    options.last_batch = LastBatch::kDiscard;
    const EpochOrder order(options, 2);
    ASSERT_EQ(order.steps(), usable / options.global_batch);
    const Ids used = epoch_rows(order, options.world_size);
    EXPECT_EQ(used.size(), static_cast<std::size_t>(order.steps() * options.global_batch));
    EXPECT_TRUE(std::equal(used.begin(), used.end(), kept.begin()));  // the same, cut short
  }
}

// Over the epochs the steps are one stream of full batches: nothing is lost, nothing comes twice.
TEST(Sampler, starts_the_next_epoch_with_what_rolled_over) {
  for (SamplerOptions options : grid()) {
    options.last_batch = LastBatch::kRollover;
    SCOPED_TRACE(text_of(options));
    const int parts = options.split == Split::kShuffle ? 1 : options.world_size;
    const std::int64_t part = options.dataset_size / parts;
    constexpr std::int64_t kEpochs = 4;
    std::vector<Ids> streams(static_cast<std::size_t>(parts));
    std::int64_t steps = 0;
    for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const EpochOrder order(options, epoch);
      for (std::int64_t step = 0; step < order.steps(); ++step) {
        ASSERT_EQ(order.global_count(step), options.global_batch);
        for (int rank = 0; rank < options.world_size; ++rank) {
          const auto rows = order.rank_rows(step, rank);
          Ids& stream = streams[static_cast<std::size_t>(parts == 1 ? 0 : rank)];
          stream.insert(stream.end(), rows.begin(), rows.end());
        }
      }
      steps += order.steps();
      ASSERT_EQ(steps, (epoch + 1) * part * parts / options.global_batch);
    }
    SamplerOptions keep = options;
    keep.last_batch = LastBatch::kKeep;
    for (int p = 0; p < parts; ++p) {
      Ids expected;  // the parts' own orders, epoch after epoch
      for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
        const EpochOrder order(keep, epoch);
        for (std::int64_t step = 0; step < order.steps(); ++step) {
          const Ids rows = parts == 1 ? step_rows(order, step, options.world_size)
                                      : copy(order.rank_rows(step, p));
          expected.insert(expected.end(), rows.begin(), rows.end());
        }
      }
      const Ids& stream = streams[static_cast<std::size_t>(p)];
      ASSERT_LE(expected.size() - stream.size(),
                static_cast<std::size_t>(options.global_batch / parts + 1));
      expected.resize(stream.size());
      ASSERT_EQ(stream, expected);
    }
  }
}

// However often the batch changes, and wherever: each row comes once, in the order that it has with
// any batch.
TEST(Sampler, goes_on_from_any_place_with_another_batch) {
  for (SamplerOptions options : grid()) {
    for (const LastBatch last : {LastBatch::kKeep, LastBatch::kRollover}) {
      options.last_batch = last;
      SCOPED_TRACE(text_of(options));
      const int parts = options.split == Split::kShuffle ? 1 : options.world_size;
      const std::int64_t usable = options.dataset_size / parts * parts;
      constexpr std::int64_t kEpochs = 3;
      std::vector<Ids> streams(static_cast<std::size_t>(parts));
      std::vector<Ids> expected(static_cast<std::size_t>(parts));
      SamplerOptions whole = options;  // one step that is the whole epoch
      whole.global_batch = usable;
      EpochPlace place;
      std::int64_t steps = 0;
      for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
        for (;;) {
          options.global_batch = 1 + 5 * steps % 11;  // another one for each step
          const EpochOrder order(options, epoch, place);
          ASSERT_EQ(order.steps(), steps_of(options, 1, place));
          if (order.steps() == 0) break;
          for (int rank = 0; rank < options.world_size; ++rank) {
            const Ids rows = copy(order.rank_rows(0, rank));
            Ids& stream = streams[static_cast<std::size_t>(parts == 1 ? 0 : rank)];
            stream.insert(stream.end(), rows.begin(), rows.end());
          }
          place.done += order.global_count(0);
          ++steps;
        }
        place = EpochOrder(options, epoch, place).next();
        for (int part = 0; part < parts; ++part) {
          const EpochOrder order(whole, epoch, {});
          const Ids rows =
              parts == 1 ? step_rows(order, 0, options.world_size) : copy(order.rank_rows(0, part));
          Ids& stream = expected[static_cast<std::size_t>(part)];
          stream.insert(stream.end(), rows.begin(), rows.end());
        }
      }
      std::int64_t rows = 0;
      for (std::size_t part = 0; part < streams.size(); ++part) {
        rows += std::ssize(streams[part]);
        expected[part].resize(std::min(expected[part].size(), streams[part].size()));
        ASSERT_EQ(streams[part], expected[part]);
      }
      ASSERT_EQ(rows, kEpochs * usable - place.rolled_over);
      ASSERT_LT(place.rolled_over, options.global_batch);
    }
  }
}

// The sampler of D2L's tutorial, its list of rows shuffled by our permutation, over three epochs.
TEST(Sampler, agrees_with_the_split_batch_sampler) {
  for (const LastBatch last : {LastBatch::kKeep, LastBatch::kDiscard, LastBatch::kRollover}) {
    for (const auto& [length, batch_size, num_parts] :
         {std::tuple{103, 10, 4}, std::tuple{50, 7, 3}, std::tuple{64, 8, 2},
          std::tuple{31, 4, 1}}) {
      const SamplerOptions options{
          length, std::int64_t{batch_size} * num_parts, num_parts, Split::kSplitBatch, last, 42};
      SCOPED_TRACE(text_of(options));
      const int part_length = length / num_parts;
      for (int part = 0; part < num_parts; ++part) {
        Ids previous;
        for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
          SamplerOptions whole = options;  // one step that is the whole epoch
          whole.global_batch = std::int64_t{part_length} * num_parts;
          whole.last_batch = LastBatch::kKeep;
          const EpochOrder indices(whole, epoch);
          std::vector<Ids> expected;
          Ids batch = std::move(previous);
          previous.clear();
          for (const std::int64_t id : indices.rank_rows(0, part)) {
            batch.push_back(id);
            if (static_cast<int>(batch.size()) < batch_size) continue;
            expected.push_back(std::move(batch));
            batch.clear();
          }
          if (!batch.empty() && last == LastBatch::kKeep) expected.push_back(batch);
          if (!batch.empty() && last == LastBatch::kRollover) previous = batch;

          const EpochOrder order(options, epoch);
          std::vector<Ids> actual;
          for (std::int64_t s = 0; s < order.steps(); ++s) {
            actual.push_back(copy(order.rank_rows(s, part)));
          }
          ASSERT_EQ(actual, expected) << "part " << part << " epoch " << epoch;
        }
      }
    }
  }
}

TEST(Sampler, keeps_each_ranks_part_to_itself) {
  for (const Split split : {Split::kContiguous, Split::kSplitBatch}) {
    const EpochOrder order({103, 20, 4, split, LastBatch::kKeep, 1}, 2);
    for (int rank = 0; rank < 4; ++rank) {
      Ids ids;
      for (std::int64_t step = 0; step < order.steps(); ++step) {
        const auto rows = order.rank_rows(step, rank);
        ids.insert(ids.end(), rows.begin(), rows.end());
      }
      const Ids part = range(rank * 25, (rank + 1) * 25);  // the last three rows are dropped
      EXPECT_EQ(sorted(ids), part);
      EXPECT_EQ(ids == part, split == Split::kContiguous);
    }
  }
}

TEST(Sampler, shuffles_anew_each_epoch_and_the_same_after_a_restart) {
  for (const Split split : {Split::kShuffle, Split::kSplitBatch}) {
    SamplerOptions options{1000, 100, 4, split, LastBatch::kKeep, 42};
    const Ids first = epoch_rows(EpochOrder(options, 0), 4);
    const Ids second = epoch_rows(EpochOrder(options, 1), 4);
    EXPECT_EQ(epoch_rows(EpochOrder(options, 1), 4), second);
    options.seed = 43;
    const Ids other_seed = epoch_rows(EpochOrder(options, 1), 4);
    for (const auto& [a, b] : {std::pair{first, second}, std::pair{second, other_seed}}) {
      int same_place = 0;
      for (std::size_t i = 0; i < a.size(); ++i) same_place += a[i] == b[i] ? 1 : 0;
      EXPECT_LT(same_place, 30);
    }
  }
}

TEST(Sampler, shuffles_alike_at_every_world_size) {
  for (const LastBatch last : {LastBatch::kKeep, LastBatch::kDiscard, LastBatch::kRollover}) {
    for (const std::int64_t epoch : {0, 3}) {
      const EpochOrder one({1003, 50, 1, Split::kShuffle, last, 42}, epoch);
      for (int world_size = 2; world_size <= 9; ++world_size) {
        const EpochOrder many({1003, 50, world_size, Split::kShuffle, last, 42}, epoch);
        ASSERT_EQ(many.steps(), one.steps());
        for (std::int64_t step = 0; step < one.steps(); ++step) {
          ASSERT_EQ(step_rows(many, step, world_size), copy(one.rank_rows(step, 0)));
        }
      }
    }
  }
}

TEST(Sampler, regroups_virtual_shards_over_any_number_of_ranks) {
  constexpr int kShards = 8;
  for (const std::int64_t batch : {64, 61, 5}) {
    const EpochOrder one({203, batch, 1, Split::kShuffle, LastBatch::kKeep, 42}, 1);
    for (int world_size = 1; world_size <= kShards; ++world_size) {
      const EpochOrder order({203, batch, world_size, Split::kShuffle, LastBatch::kKeep, 42}, 1);
      for (std::int64_t step = 0; step < order.steps(); ++step) {
        const Ids rows = copy(one.rank_rows(step, 0));
        Ids regrouped;
        for (int rank = 0; rank < world_size; ++rank) {
          const RowRange shards = cut(kShards, rank, world_size);
          for (auto shard = shards.first; shard < shards.last; ++shard) {
            const auto ids = order.shard_rows(step, static_cast<int>(shard), kShards);
            const RowRange expected = cut(std::ssize(rows), static_cast<int>(shard), kShards);
            EXPECT_EQ(copy(ids), Ids(rows.begin() + expected.first, rows.begin() + expected.last));
            regrouped.insert(regrouped.end(), ids.begin(), ids.end());
          }
        }
        ASSERT_EQ(regrouped, rows);
      }
    }
  }
}

TEST(Sampler, draws_every_permutation_equally_often) {
  // 24 permutations of 4 rows, 24,000 epochs: chi-squared with 23 degrees of freedom, 99.9 %
  // below 49.7.
  std::map<Ids, int> counts;
  for (std::int64_t epoch = 0; epoch < 24000; ++epoch) {
    ++counts[copy(
        EpochOrder({4, 4, 1, Split::kShuffle, LastBatch::kKeep, 42}, epoch).rank_rows(0, 0))];
  }
  ASSERT_EQ(counts.size(), 24U);
  double chi_squared = 0;
  for (const auto& [order, count] : counts)
    chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_squared, 49.7);
}

// The numbers are part of what "same bits" means: a change here changes every run.
TEST(Sampler, keeps_its_orders_from_version_to_version) {
  std::string text;
  for (const Split split : {Split::kShuffle, Split::kContiguous, Split::kSplitBatch}) {
    for (const LastBatch last : {LastBatch::kKeep, LastBatch::kDiscard, LastBatch::kRollover}) {
      for (const std::int64_t epoch : {0, 1}) {
        const SamplerOptions options{14, 6, 2, split, last, 42};
        const EpochOrder order(options, epoch);
        text += fmt::format("{} epoch={}\n", text_of(options), epoch);
        for (std::int64_t step = 0; step < order.steps(); ++step) {
          text += fmt::format("  step {}:", step);
          for (const int rank : {0, 1}) {
            for (const std::int64_t id : order.rank_rows(step, rank))
              text += fmt::format(" {}", id);
            text += rank == 0 ? " |" : "\n";
          }
        }
      }
    }
  }
  coxswain::test::expect_golden("data/sampler.txt", text);
}

TEST(Sampler, refuses_data_that_never_make_a_step) {
  const auto error = [](const SamplerOptions& options) {
    return error_of([&] { EpochOrder(options, 0); });
  };
  EXPECT_EQ(error({0, 4, 1, Split::kShuffle, LastBatch::kKeep, 1}),
            "65 [data] 0 samples: expected 1 to 4294967295");
  EXPECT_EQ(error({3, 8, 4, Split::kSplitBatch, LastBatch::kKeep, 1}),
            "65 [data] too few samples for 4 ranks: 3; use fewer ranks, or data.split: shuffle");
  EXPECT_EQ(
      error({7, 8, 2, Split::kShuffle, LastBatch::kDiscard, 1}),
      "65 [data] 7 samples do not fill one batch of 8 and lastBatch is discard; lower batchSize, "
      "or use keep");
}

}  // namespace
}  // namespace coxswain::data
