#include "trainer/train/agreement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/train/training_fixture.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::train {
namespace {

using ::testing::HasSubstr;

World where_rank_differs(int different, const Hooks& difference) {
  World world = {.size = 3, .training = &small_images()};
  world.hooks = [=](int rank, std::atomic<bool>&, test::ThreadNetwork&) {
    return rank == different ? difference : Hooks{};
  };
  return world;
}

Hooks other_numbers() {
  Hooks hooks;
  hooks.fingerprint = "another machine";
  return hooks;
}

TEST(Agreement, is_not_needed_of_fingerprints_but_told) {
  const Outcome outcome = run(mlp_options(), where_rank_differs(2, other_numbers()));
  EXPECT_EQ(outcome.result, Result::kSucceeded);
  EXPECT_THAT(outcome.told.notes(), HasSubstr("rank 2 computes with other numbers than rank 0"));
  EXPECT_THAT(outcome.told.notes(), HasSubstr("can't be repeated bit for bit"));
}

TEST(Agreement, of_fingerprints_is_needed_under_any_world_size) {
  TrainOptions options = mlp_options();
  options.virtual_shards = 8;
  for (const Outcome& outcome : run_ranks(options, where_rank_differs(1, other_numbers()))) {
    EXPECT_EQ(outcome.code, ExitCode::kBadInput);
    EXPECT_THAT(outcome.error, HasSubstr("rank 1 computes with other numbers than rank 0"));
    EXPECT_THAT(outcome.error, HasSubstr("anyWorldSize needs equal machines"));
    EXPECT_EQ(outcome.updates, 0);
  }
}

TEST(Agreement, on_the_layout_is_the_canonical_one_when_ranks_differ) {
  Hooks other;
  other.other_layout = true;
  const Outcome equal = run(mlp_options(), {.size = 3, .training = &small_images()});
  for (const int different : {0, 2}) {
    const Outcome mixed = run(mlp_options(), where_rank_differs(different, other));
    EXPECT_THAT(mixed.told.notes(), HasSubstr("all use the canonical layout"));
    EXPECT_EQ(difference(mixed.weights, equal.weights), "");
  }
}

TEST(Agreement, names_the_ranks_that_differ_to_every_rank) {
  test::run_ranks(5, [](comm::Communicator& communicator) {
    const bool odd = communicator.rank() % 2 == 1;
    EXPECT_EQ(ranks_that_differ(communicator, odd ? 9 : 7), (std::vector<int>{1, 3}));
    EXPECT_EQ(ranks_that_differ(communicator, 7), std::vector<int>());
    const std::string text = communicator.rank() == 0 ? "from rank 0" : "";
    EXPECT_EQ(broadcast_text(communicator, text), "from rank 0");
    EXPECT_EQ(broadcast_text(communicator, ""), "");
  });
}

TEST(Agreement, refuses_weights_that_are_not_rank_0s) {
  test::run_ranks(3, [](comm::Communicator& communicator) {
    const auto backend = backend::make_reference_backend();
    const auto parameters = backend->make_parameters(
        tensor::pack({{.name = "fc.weight", .dims = {2, 3}, .stored = 6}}), 0);
    EXPECT_NO_THROW(require_equal_weights(communicator, *backend, *parameters));
    if (communicator.rank() == 1) tensor::host_span(parameters->weights())[5] = 1e-30F;
    try {
      require_equal_weights(communicator, *backend, *parameters);
      FAIL() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kInternal);
      EXPECT_THAT(error.what(), HasSubstr("the weights of rank 1 are not rank 0's"));
    }
  });
}

}  // namespace
}  // namespace coxswain::train
