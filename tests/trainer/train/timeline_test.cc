#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"

namespace coxswain::train {
namespace {

using std::chrono::steady_clock;

// Clocks that are 1,000 s apart, and go on by a microsecond a look.
World two_ranks(std::array<std::atomic<std::int64_t>, 2>& looks) {
  World world{.size = 2, .training = &small_images(), .test = nullptr};
  world.now = [&looks](int rank) {
    const std::int64_t look = looks[static_cast<std::size_t>(rank)].fetch_add(1);
    return steady_clock::time_point(std::chrono::seconds(1000 * (rank + 1)) +
                                    std::chrono::microseconds(look));
  };
  return world;
}

TEST(Timeline, has_all_ranks_parts_of_its_steps_on_one_clock) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.timeline = {directory.path() / "steps.json", 3, 4};
  std::array<std::atomic<std::int64_t>, 2> looks{}, others{};
  const Outcome outcome = run(options, two_ranks(looks));
  EXPECT_TRUE(outcome.told.warnings.empty());
  options.timeline = {};
  EXPECT_EQ(outcome.weights, run(options, two_ranks(others)).weights);

  std::ifstream file(directory.path() / "steps.json");
  const auto text = nlohmann::json::parse(std::string{std::istreambuf_iterator<char>(file), {}});
  std::map<int, std::set<std::string>> parts;
  std::map<int, double> begins;
  for (const auto& event : text.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const int rank = event.at("pid");
    parts[rank].insert(event.at("cat").get<std::string>());
    if (event.at("cat") != "step") continue;
    const std::int64_t step = event.at("args").at("step");
    EXPECT_TRUE(step == 3 || step == 4) << step;
    if (step == 3) begins[rank] = event.at("ts");
  }
  const std::set<std::string> all{"step", "load",   "forward", "backward",
                                  "wait", "update", "finish"};
  for (const int rank : {0, 1}) {
    for (const std::string& part : all) EXPECT_TRUE(parts[rank].contains(part)) << rank << part;
  }
  // In microseconds: the clocks of the two are one second apart no more.
  EXPECT_LT(std::abs(begins.at(0) - begins.at(1)), 1e6);
}

TEST(Timeline, of_steps_that_are_not_run_is_told_to_be_missing) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.timeline = {directory.path() / "steps.json", 5000, 5001};
  std::array<std::atomic<std::int64_t>, 2> looks{};
  const Outcome outcome = run(options, two_ranks(looks));
  ASSERT_EQ(outcome.told.warnings.size(), 1U);
  EXPECT_EQ(outcome.told.warnings[0], "report.timeline: no step of 5000-5001 was run");
}

}  // namespace
}  // namespace coxswain::train
