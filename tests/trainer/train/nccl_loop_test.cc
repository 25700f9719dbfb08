#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "tests/support/cuda_host/device.h"
#include "tests/support/cuda_host/nccl_ranks.h"
#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/comm/nccl/nccl_communicator.h"

// Several ranks, each with a device of tests/support/cuda_host, that sum over its nccl.h.
namespace coxswain::train {
namespace {

using ::testing::HasSubstr;

// Ranks on GPUs; what each has made, for the other functions of its world.
class Gpus {
 public:
  Gpus(int size, std::uint64_t seed, comm::NcclOptions options = {})
      : size_(size), options_(std::move(options)) {
    cuda_host::set_seed(seed);
    cuda_host::set_devices(size);
  }
  ~Gpus() { cuda_host::set_devices(1); }
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;

  World world(const data::Dataset& training, const data::Dataset& test) {
    World world = {.size = size_, .training = &training, .test = &test};
    world.backend = [this](int rank) {
      auto backend = backend::make_cuda_backend(rank);
      const std::lock_guard lock(mutex_);
      backends_[rank] = backend.get();
      return backend;
    };
    world.wrap_communicator = [this](int rank, std::unique_ptr<comm::Communicator> host) {
      auto ranks = comm::make_nccl_communicator(std::move(host), backend_of(rank), options_);
      const std::lock_guard lock(mutex_);
      aborts_[rank] = std::move(ranks.abort);
      return std::move(ranks.communicator);
    };
    world.on_lost = [this](int rank, const comm::PeerLost&) { abort(rank); };
    return world;
  }

  void abort(int rank) {
    std::function<bool()> abort;
    {
      const std::lock_guard lock(mutex_);
      abort = aborts_[rank];
    }
    if (abort) {
      EXPECT_TRUE(abort());
    }
  }

 private:
  backend::Backend& backend_of(int rank) {
    const std::lock_guard lock(mutex_);
    return *backends_.at(rank);
  }

  int size_;
  comm::NcclOptions options_;
  std::mutex mutex_;  // guards all below
  std::map<int, backend::Backend*> backends_;
  std::map<int, std::function<bool()>> aborts_;
};

// Over the CPU's communicator, in the same order of sums, on the reference.
Outcome on_cpu(const TrainOptions& options, int size) {
  return run(options, {.size = size, .training = &small_images(), .test = &small_test_images()});
}

Outcome on_gpus(const TrainOptions& options, int size, std::uint64_t seed,
                comm::NcclOptions nccl = {}) {
  Gpus gpus(size, seed, std::move(nccl));
  return run(options, gpus.world(small_images(), small_test_images()));
}

TEST(NcclLoop, trains_as_ranks_of_the_reference) {
  for (const int size : {1, 2, 4}) {
    const Outcome expected = on_cpu(mlp_options(), size);
    for (const bool fixed_order : {true, false}) {
      SCOPED_TRACE(fmt::format("{} ranks, order {}", size, fixed_order));
      TrainOptions options = mlp_options();
      options.fixed_order = fixed_order;
      const Outcome actual = on_gpus(options, size, 1, {.fixed_order = fixed_order});
      EXPECT_LE(relative_distance(expected.weights, actual.weights), 1e-5);
      EXPECT_LE(relative_distance(expected.slots, actual.slots), 1e-5);
      EXPECT_EQ(expected.updates, actual.updates);
    }
  }
  EXPECT_EQ(cuda_host::living_communicators(), 0);
}

TEST(NcclLoop, trains_networks_as_ranks_of_the_reference) {
  for (const Model model : {Model::kSingaCnn, Model::kCifarResnet8}) {
    const tensor::Shape image =
        model == Model::kSingaCnn ? tensor::Shape{1, 1, 28, 28} : tensor::Shape{1, 3, 8, 8};
    const auto images = data::make_synthetic(image, 4, 16, 1);
    TrainOptions options = mlp_options();
    options.model = model;
    options.steps = 4;  // as they are asked for, recorded twice, replayed
    options.batch_size = 4;
    options.epochs.reset();
    options.bucket_bytes = 40'000;
    for (const int size : {1, 2, 4}) {
      const Outcome expected =
          run(options, {.size = size, .training = images.get(), .test = images.get()});
      Gpus gpus(size, 3);
      const Outcome actual = run(options, gpus.world(*images, *images));
      EXPECT_LE(relative_distance(expected.weights, actual.weights), 1e-5)
          << word(model) << " on " << size;
      EXPECT_EQ(actual.updates, 4);
    }
  }
}

// 29 images in steps of 12: those of the last one are not as many on each rank.
TEST(NcclLoop, joins_norms_as_ranks_of_the_reference) {
  const auto images = data::make_synthetic({1, 3, 8, 8}, 4, 29, 7);
  TrainOptions options = mlp_options();
  options.model = Model::kCifarResnet8;
  options.batch_size = 12;
  options.global_batch_size = true;
  options.epochs = 3;
  options.bucket_bytes = 40'000;
  for (const auto& [size, seed] : {std::pair(1, 1), {2, 1}, {2, 2}, {3, 3}}) {
    SCOPED_TRACE(fmt::format("{} ranks, seed {}", size, seed));
    options.joins_norms = true;
    const World ranks{.size = size, .training = images.get(), .test = images.get()};
    const Outcome expected = run(options, ranks);
    Gpus gpus(size, static_cast<std::uint64_t>(seed));
    const Outcome actual = run(options, gpus.world(*images, *images));
    EXPECT_LE(relative_distance(expected.weights, actual.weights), 1e-5);
    if (size == 1) continue;
    options.joins_norms = false;
    EXPECT_GE(relative_distance(expected.weights, run(options, ranks).weights), 1e-2);
  }
  EXPECT_EQ(cuda_host::living_communicators(), 0);
}

TEST(NcclLoop, trains_by_layerwise_rules_as_ranks_of_the_reference) {
  for (const OptimizerKind kind :
       {OptimizerKind::kLars, OptimizerKind::kLamb, OptimizerKind::kMuon}) {
    TrainOptions options = mlp_options();
    options.rule = {.kind = kind, .weight_decay = 1e-4F, .clip_norm = 0.25F, .ema_decay = 0.9F};
    options.schedule.lr = kind == OptimizerKind::kLars ? 0.1F : 0.001F;
    for (const int size : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} on {}", word(kind), size));
      const Outcome expected = on_cpu(options, size);
      const Outcome actual = on_gpus(options, size, 1);
      EXPECT_LE(relative_distance(expected.weights, actual.weights), 1e-5);
      EXPECT_LE(relative_distance(expected.slots, actual.slots), 1e-5);
      EXPECT_EQ(expected.updates, actual.updates);
    }
  }
}

TEST(NcclLoop, trains_in_narrow_types_as_ranks_of_the_reference) {
  TrainOptions options = mlp_options();
  options.loss_scaling = {.initial = 0x1.0p20, .dynamic = true};
  for (const auto& [precision, tolerance] :
       {std::pair{Precision::kBf16, 1e-2}, {Precision::kFp16, 1e-3}}) {
    options.precision = precision;
    for (const int size : {1, 2, 4}) {
      SCOPED_TRACE(fmt::format("{} on {}", word(precision), size));
      const Outcome expected = on_cpu(options, size);
      const Outcome actual = on_gpus(options, size, 1);
      EXPECT_LE(relative_distance(expected.weights, actual.weights), tolerance);
      EXPECT_EQ(expected.updates, actual.updates);
    }
  }
}

TEST(NcclLoop, gives_the_same_bits_on_every_number_of_ranks) {
  TrainOptions options = mlp_options();
  options.virtual_shards = 8;
  options.batch_size = 17;
  const Outcome alone = on_gpus(options, 1, 1);
  for (const int size : {2, 4}) {
    const Outcome together = on_gpus(options, size, 2);
    EXPECT_EQ(difference(alone.weights, together.weights), "") << size << " ranks";
    EXPECT_EQ(difference(alone.slots, together.slots), "") << size << " ranks";
  }
}

TEST(NcclLoop, does_not_depend_on_what_the_devices_do_when) {
  const Outcome first = on_gpus(mlp_options(), 2, 1);
  for (const std::uint64_t seed : {2, 3, 4}) {
    const Outcome again = on_gpus(mlp_options(), 2, seed);
    EXPECT_EQ(difference(first.weights, again.weights), "") << "seed " << seed;
  }
}

TEST(NcclLoop, goes_on_from_a_checkpoint_bit_for_bit) {
  const CheckpointDirectory all;
  const CheckpointDirectory halves;
  TrainOptions options = mlp_options();
  options.checkpoint.directory = all.path();
  const Outcome whole = on_gpus(options, 2, 1);
  options.checkpoint.directory = halves.path();
  {
    Gpus gpus(2, 2);
    World world = gpus.world(small_images(), small_test_images());
    world.hooks = stop_after(0, 11);
    run(options, world);
  }
  const Outcome rest = on_gpus(options, 2, 3);
  EXPECT_EQ(difference(whole.weights, rest.weights), "");
  EXPECT_EQ(difference(whole.slots, rest.slots), "");
}

TEST(NcclLoop, ends_everywhere_and_publishes_nothing_when_a_peer_dies) {
  for (const int lost : {0, 2}) {
    const CheckpointDirectory directory;
    TrainOptions options = mlp_options();
    options.checkpoint.directory = directory.path();
    Gpus gpus(3, 1);
    World world = gpus.world(small_images(), small_test_images());
    world.peer_deadline = std::chrono::milliseconds(500);
    world.hooks = [lost](int rank, std::atomic<bool>&, test::ThreadNetwork& network) {
      Hooks hooks;
      if (rank != lost) return hooks;
      hooks.after_gradient = [&network, lost](std::int64_t pass, backend::Parameters&, int) {
        if (pass == 4) network.stop(lost);
      };
      return hooks;
    };
    for (const Outcome& outcome : run_ranks(options, world)) {
      EXPECT_TRUE(outcome.peer_lost) << outcome.error;
      EXPECT_EQ(outcome.code, ExitCode::kPeerLost);
    }
    EXPECT_EQ(saved_in(directory.path()), std::set<std::string>());
  }
  EXPECT_EQ(cuda_host::living_communicators(), 0);
}

TEST(NcclLoop, of_different_gpus_says_so) {
  Gpus gpus(2, 1);
  World world = gpus.world(small_images(), small_test_images());
  const auto plain = world.backend;
  std::mutex one_at_a_time;
  world.backend = [&](int rank) {
    const std::lock_guard lock(one_at_a_time);
    cuda_host::set_devices(2, rank == 0 ? "A100" : "H200");
    return plain(rank);
  };
  const Outcome outcome = run(mlp_options(), world);
  EXPECT_THAT(outcome.told.notes(), HasSubstr("rank 1 computes with other numbers than rank 0"));
  EXPECT_THAT(outcome.told.notes(), HasSubstr("gpu=\"A100\""));
}

}  // namespace
}  // namespace coxswain::train
