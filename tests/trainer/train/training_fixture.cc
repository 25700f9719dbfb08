#include "tests/trainer/train/training_fixture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <optional>
#include <thread>

#include "trainer/backend/reference/reference_backend.h"

namespace coxswain::train {

namespace {

std::unique_ptr<comm::Communicator> join(test::ThreadNetwork& network, const World& world,
                                         int rank) {
  std::unique_ptr<comm::Communicator> communicator;
  if (world.size == 1) {
    communicator = comm::make_solo_communicator();
  } else {
    comm::WiredOptions options;
    options.peer_deadline = world.peer_deadline;
    if (world.on_lost)
      options.on_lost = [&world, rank](const comm::PeerLost& lost) { world.on_lost(rank, lost); };
    communicator = network.join(rank, std::move(options));
  }
  if (!world.wrap_communicator) return communicator;
  return world.wrap_communicator(rank, std::move(communicator));
}

Outcome run_rank(TrainOptions options, const World& world, test::ThreadNetwork& network, int rank) {
  Outcome outcome;
  Recorder recorder(outcome.told);
  std::atomic<bool> stop = false;
  std::optional<HookedBackend> backend;
  if (world.on_rank_0_alone && rank != 0) options.checkpoint.directory.clear();
  try {
    backend.emplace(world.backend ? world.backend(rank) : backend::make_reference_backend(),
                    world.hooks ? world.hooks(rank, stop, network) : Hooks{});
    SaveGate saves;
    Collaborators with{*backend,       *world.training, world.test, join(network, world, rank),
                       world.strategy, recorder,        stop,       saves};
    if (world.now) {
      with.now = [&world, &saves, rank] {
        EXPECT_TRUE(saves.wait(std::chrono::seconds(60)));
        return world.now(rank);
      };
    }
    outcome.result = train(options, std::move(with));
  } catch (const comm::PeerLost& lost) {
    outcome.peer_lost = true;
    outcome.code = lost.code();
    outcome.error = lost.what();
  } catch (const Error& error) {
    outcome.code = error.code();
    outcome.error = error.what();
  }
  if (!backend) return outcome;
  outcome.weights = backend->weights();
  outcome.slots = backend->slots();
  outcome.updates = backend->updates();
  return outcome;
}

}  // namespace

std::string Told::notes() const {
  return started.empty() ? "" : fmt::format("{}", fmt::join(started.front().notes, "\n"));
}

bool Told::nothing() const {
  return started.empty() && steps.empty() && epochs.empty() && saves.empty() && warnings.empty() &&
         finished.empty();
}

std::vector<Outcome> run_ranks(const TrainOptions& options, const World& world) {
  test::ThreadNetwork network(world.size);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(world.size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world.size; ++rank) {
      threads.emplace_back([&, rank] {
        outcomes[static_cast<std::size_t>(rank)] = run_rank(options, world, network, rank);
      });
    }
  }
  return outcomes;
}

Outcome run(const TrainOptions& options, const World& world) {
  std::vector<Outcome> outcomes = run_ranks(options, world);
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    SCOPED_TRACE(fmt::format("rank {} of {}", rank, world.size));
    EXPECT_EQ(outcomes[rank].error, "");
    EXPECT_EQ(outcomes[rank].result, outcomes[0].result);
    EXPECT_EQ(difference(outcomes[rank].weights, outcomes[0].weights), "");
    EXPECT_EQ(difference(outcomes[rank].slots, outcomes[0].slots), "");
    EXPECT_EQ(outcomes[rank].told.nothing(), rank != 0);
  }
  return std::move(outcomes[0]);
}

TrainOptions mlp_options() {
  TrainOptions options;
  options.model = Model::kMlp;
  options.batch_size = 8;
  options.global_batch_size = true;
  options.epochs = 3;
  options.schedule.lr = 0.05F;
  options.schedule.momentum = 0.9F;
  options.evaluation_batch = 5;
  options.report_every_steps = 1;
  options.bucket_bytes = 1 << 20;
  options.checkpoint.every_seconds = 0;
  return options;
}

const data::Dataset& small_images() {
  static const auto images = data::make_synthetic({1, 1, 6, 6}, 4, 60, 7);
  return *images;
}

const data::Dataset& small_test_images() {
  static const auto images = data::make_synthetic({1, 1, 6, 6}, 4, 23, 8);
  return *images;
}

std::string difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return fmt::format("{} values and {}", a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i])) continue;
    return fmt::format("value {} of {}: {} and {}", i, a.size(), a[i], b[i]);
  }
  return "";
}

double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double distance = 0;
  double length = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]);
    distance += (x - static_cast<double>(b[i])) * (x - static_cast<double>(b[i]));
    length += x * x;
  }
  return std::sqrt(distance / length);
}

std::function<Hooks(int, std::atomic<bool>&, test::ThreadNetwork&)> stop_after(
    int stopping_rank, std::int64_t updates) {
  return [=](int rank, std::atomic<bool>& stop, test::ThreadNetwork&) {
    Hooks hooks;
    if (rank != stopping_rank) return hooks;
    stop = updates == 0;
    hooks.after_update = [&stop, updates](std::int64_t update, backend::Parameters&) {
      if (update == updates) stop = true;
    };
    return hooks;
  };
}

}  // namespace coxswain::train
