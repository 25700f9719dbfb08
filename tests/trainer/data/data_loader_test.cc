#include "trainer/data/data_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <set>
#include <thread>

#include "tests/trainer/data/data_files.h"
#include "trainer/data/sampler.h"

namespace coxswain::data {
namespace {

using augment::Flip;
using augment::Normalise;
using augment::PadCrop;
using coxswain::test::error_of;
using ::testing::ElementsAre;

std::unique_ptr<Dataset> digits() { return make_synthetic({1, 1, 8, 8}, 10, 1000, 3); }

// The requests of a list, one after another.
DataLoader::NextRequest from(std::vector<BatchRequest> requests) {
  return
      [list = std::move(requests), next = std::size_t{0}]() mutable -> std::optional<BatchRequest> {
        if (next == list.size()) return std::nullopt;
        return list[next++];
      };
}

// Batches of four consecutive samples for ever.
DataLoader::NextRequest endless(std::atomic<int>& asked) {
  return [&asked]() -> std::optional<BatchRequest> {
    const std::int64_t first = asked++ * 4 % 900;
    return BatchRequest{{first, first + 1, first + 2, first + 3}, 0, 0};
  };
}

// How many requests the loader has asked for, once that is `count` or time is up.
int settled_at(const std::atomic<int>& asked, int count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (asked < count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  return asked;
}

std::vector<std::uint8_t> image(const Dataset& dataset, const LoaderOptions& options,
                                std::int64_t id, std::int64_t epoch) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(dataset.sample_shape().per_sample()));
  augment::Scratch scratch;
  Preprocessor(options.preprocessing, dataset.sample_shape(), options.training)
      .run({options.seed, id, epoch}, dataset.read(id, scratch), out);
  return out;
}

TEST(DataLoader, prepares_batches_in_order_and_ends) {
  const auto dataset = digits();
  const LoaderOptions options{{PadCrop{}, Flip{}, Normalise{{0.5}, {0.25}}}, true, 42, 2};
  DataLoader loader(*dataset, options, from({{{5, 900, 7}, 3, 0}, {{1}, 3, 0}, {{}, 4, 0}}));

  const HostBatch* batch = loader.next();
  ASSERT_NE(batch, nullptr);
  EXPECT_THAT(batch->sample_ids, ElementsAre(5, 900, 7));
  EXPECT_THAT(batch->labels,
              ElementsAre(dataset->label(5), dataset->label(900), dataset->label(7)));
  EXPECT_EQ(batch->valid, 3);
  EXPECT_EQ(batch->epoch, 3);
  std::vector<std::uint8_t> expected;
  for (const std::int64_t id : {5, 900, 7}) {
    const auto one = image(*dataset, options, id, 3);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  EXPECT_EQ(batch->images, expected);

  batch = loader.next();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->images, image(*dataset, options, 1, 3));
  EXPECT_EQ(batch->valid, 1);

  batch = loader.next();  // a rank without rows in a short last step
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->valid, 0);
  EXPECT_EQ(batch->epoch, 4);
  EXPECT_TRUE(batch->images.empty());

  EXPECT_EQ(loader.next(), nullptr);
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(DataLoader, pads_with_copies_of_the_first_row) {
  const auto dataset = digits();
  const LoaderOptions options{{Normalise{{0.5}, {0.25}}}, false, 42, 4};
  DataLoader loader(*dataset, options, from({{{8, 9}, 0, 5}, {{}, 0, 2}}));
  const HostBatch* batch = loader.next();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->valid, 2);
  EXPECT_THAT(batch->sample_ids, ElementsAre(8, 9, 8, 8, 8));
  EXPECT_EQ(batch->labels[4], dataset->label(8));
  ASSERT_EQ(batch->images.size(), 5U * 64);
  const auto first = image(*dataset, options, 8, 0);
  for (const int row : {0, 2, 3, 4}) {
    EXPECT_TRUE(std::equal(first.begin(), first.end(), batch->images.begin() + row * 64)) << row;
  }
  batch = loader.next();  // nothing to copy: sample 0
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->valid, 0);
  EXPECT_THAT(batch->sample_ids, ElementsAre(0, 0));
  EXPECT_EQ(batch->images.size(), 2U * 64);
}

TEST(DataLoader, gives_each_rank_what_a_single_one_would_see) {
  const auto dataset = digits();
  const LoaderOptions options{{PadCrop{}, Flip{}}, true, 42, 3};
  const auto all_images = [&](int world_size) {
    std::vector<std::uint8_t> images;
    const EpochOrder order({100, 24, world_size, Split::kShuffle, LastBatch::kKeep, 42}, 1);
    std::vector<std::unique_ptr<DataLoader>> ranks;
    for (int rank = 0; rank < world_size; ++rank) {
      std::vector<BatchRequest> requests;
      for (std::int64_t step = 0; step < order.steps(); ++step) {
        const auto rows = order.rank_rows(step, rank);
        requests.push_back({{rows.begin(), rows.end()}, 1, 0});
      }
      ranks.push_back(std::make_unique<DataLoader>(*dataset, options, from(requests)));
    }
    for (std::int64_t step = 0; step < order.steps(); ++step) {
      for (const auto& rank : ranks) {
        const HostBatch* batch = rank->next();
        images.insert(images.end(), batch->images.begin(), batch->images.end());
      }
    }
    return images;
  };
  const auto one = all_images(1);
  EXPECT_EQ(one.size(), 100U * 64);
  EXPECT_EQ(all_images(3), one);
  EXPECT_EQ(all_images(4), one);
}

TEST(DataLoader, runs_ahead_by_its_depth_and_no_further) {
  const auto dataset = digits();
  std::atomic<int> asked = 0;
  DataLoader loader(*dataset, {{}, true, 0, 3}, endless(asked));
  EXPECT_EQ(settled_at(asked, 3), 3);
  std::set<const HostBatch*> buffers;
  for (int i = 1; i <= 50; ++i) {
    buffers.insert(loader.next());
    EXPECT_EQ(settled_at(asked, 3 + i), 3 + i);
  }
  EXPECT_LE(buffers.size(), 4U);  // three ahead, one lent: never more
}

TEST(DataLoader, reuses_memory_once_warm) {
  const auto dataset = digits();
  constexpr int kDepth = 2;
  std::atomic<int> asked = 0;
  // As many large batches as there are buffers, then small ones: a buffer made anew would be small.
  DataLoader loader(*dataset, {{}, true, 0, kDepth}, [&]() -> std::optional<BatchRequest> {
    return BatchRequest{std::vector<std::int64_t>(asked++ <= kDepth ? 16 : 1), 0, 0};
  });
  EXPECT_EQ(settled_at(asked, kDepth), kDepth);
  ASSERT_NE(loader.next(), nullptr);
  EXPECT_EQ(settled_at(asked, kDepth + 1), kDepth + 1);
  for (int i = 0; i < 50; ++i) EXPECT_GE(loader.next()->images.capacity(), 16U * 64);
}

TEST(DataLoader, rethrows_what_its_thread_threw_after_the_batches_before) {
  const auto dataset = digits();
  int calls = 0;
  DataLoader loader(*dataset, {{}, true, 0, 4}, [&]() -> std::optional<BatchRequest> {
    if (++calls == 3) throw Error(ExitCode::kBadInput, "[data] broken");
    return BatchRequest{{calls}, 0, 0};
  });
  EXPECT_THAT(loader.next()->sample_ids, ElementsAre(1));
  EXPECT_THAT(loader.next()->sample_ids, ElementsAre(2));
  EXPECT_EQ(error_of([&] { loader.next(); }), "65 [data] broken");
  EXPECT_EQ(error_of([&] { loader.next(); }), "65 [data] broken");
}

// Images whose every reading fails from one on, and is told of.
class BrokenFrom : public Dataset {
 public:
  explicit BrokenFrom(std::int64_t broken) : broken_(broken) {}
  std::int64_t size() const override { return inner_->size(); }
  tensor::Shape sample_shape() const override { return inner_->sample_shape(); }
  std::int64_t classes() const override { return inner_->classes(); }
  std::int32_t label(std::int64_t id) const override { return inner_->label(id); }
  augment::Image read(std::int64_t id, augment::Scratch& scratch) const override {
    if (id >= broken_) {
      throw Error(ExitCode::kBadInput, "[data] sample " + std::to_string(id) + " is broken");
    }
    return inner_->read(id, scratch);
  }

 private:
  std::unique_ptr<Dataset> inner_ = digits();
  std::int64_t broken_;
};

TEST(DataLoader, makes_the_same_batches_on_any_number_of_threads) {
  const auto dataset = digits();
  const auto all_images = [&](int workers) {
    std::vector<BatchRequest> requests;
    for (std::int64_t first = 0; first < 900; first += 37) {
      BatchRequest request{{}, first, first % 2 == 0 ? 40 : 0};
      for (std::int64_t id = first; id < first + 37; ++id) request.sample_ids.push_back(id);
      requests.push_back(std::move(request));
      requests.push_back({{}, first, first % 3});
    }
    LoaderOptions options{{PadCrop{}, Flip{}}, true, 42, 3, workers};
    DataLoader loader(*dataset, options, from(requests));
    std::vector<std::uint8_t> images;
    std::vector<std::int64_t> ids;
    while (const HostBatch* batch = loader.next()) {
      images.insert(images.end(), batch->images.begin(), batch->images.end());
      ids.insert(ids.end(), batch->sample_ids.begin(), batch->sample_ids.end());
    }
    return std::pair(images, ids);
  };
  const auto alone = all_images(1);
  for (const int workers : {2, 3, 8, 64}) EXPECT_EQ(all_images(workers), alone) << workers;
}

TEST(DataLoader, rethrows_what_the_first_bad_row_threw_after_the_batches_before) {
  const BrokenFrom dataset(10);
  for (const int workers : {1, 2, 8}) {
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> asked = 0;
      DataLoader loader(dataset, {{}, true, 0, 4, workers}, endless(asked));
      for (int i = 0; i < 2; ++i) EXPECT_EQ(loader.next()->sample_ids.front(), 4 * i);
      EXPECT_EQ(error_of([&] { loader.next(); }), "65 [data] sample 10 is broken");
      EXPECT_EQ(error_of([&] { loader.next(); }), "65 [data] sample 10 is broken");
    }
  }
}

TEST(DataLoader, refuses_preprocessing_that_does_not_suit_the_images) {
  const auto dataset = digits();
  EXPECT_EQ(error_of([&] {
              DataLoader(*dataset, {{Normalise{{1, 2}, {1, 2}}}, true, 0, 4}, from({}));
            }),
            "65 [data] augment: normalise needs as many mean and std as channels (1), got 2 and 2");
}

TEST(DataLoader, stops_at_once_in_every_state) {
  const auto dataset = digits();
  for (const int taken : {0, 1, 5}) {
    for (const bool full : {false, true}) {
      std::atomic<int> asked = 0;
      const auto start = std::chrono::steady_clock::now();
      {
        DataLoader loader(*dataset, {{}, true, 0, 2}, endless(asked));
        for (int i = 0; i < taken; ++i) loader.next();
        while (full && asked < taken + 2) std::this_thread::yield();
      }
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    }
  }
  DataLoader(*dataset, {{}, true, 0, 2}, from({}));  // at its end
}

TEST(DataLoader, counts_the_time_that_the_trainer_waited) {
  const auto dataset = digits();
  std::promise<void> go;
  std::promise<void> entered;
  int calls = 0;
  DataLoader loader(*dataset, {{}, true, 0, 4}, [&]() -> std::optional<BatchRequest> {
    if (++calls == 2) {
      entered.set_value();
      go.get_future().wait();
    }
    if (calls == 3) return std::nullopt;
    return BatchRequest{{1}, 0, 0};
  });
  entered.get_future().wait();  // the first batch is ready
  ASSERT_NE(loader.next(), nullptr);
  EXPECT_EQ(loader.seconds_waited(), 0.0);

  const auto start = std::chrono::steady_clock::now();
  std::jthread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    go.set_value();
  });
  ASSERT_NE(loader.next(), nullptr);
  const double elapsed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_GE(loader.seconds_waited(), 0.01);
  EXPECT_LE(loader.seconds_waited(), elapsed);
}

}  // namespace
}  // namespace coxswain::data
