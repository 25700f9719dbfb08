#include "trainer/train/algorithm_timing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"
#include "trainer/backend/reference/reference_backend.h"

namespace coxswain::train {
namespace {

using backend::Algorithms;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(FasterAlgorithms, are_those_that_pay) {
  EXPECT_EQ(faster_algorithms({{"a", {{"own", 10}, {"other", 9.9}}},
                               {"b", {{"own", 10}, {"other", 9}, {"third", 8}, {"fourth", 8.5}}},
                               {"c", {{"own", 10}, {"other", 5}}},
                               {"d", {{"own", 10}}}}),
            (Algorithms{{"b", "third"}, {"c", "other"}}));
}

// Value. What a machine's layer is computed with, and how long a look at its clock takes meanwhile.
struct Machine {
  std::string slow = "own";
  std::string algorithm = "own";
  int looks = 0;
  int programs = 0;  // in float32 that were prepared
  int narrow_programs = 0;
  std::chrono::steady_clock::time_point time{};

  std::chrono::steady_clock::time_point now() {
    ++looks;
    return time += std::chrono::milliseconds(algorithm == slow ? 3 : 1);
  }
};

// The reference with two names for one way to compute its last layer.
class TwoNames : public backend::Backend {
 public:
  explicit TwoNames(Machine& machine) : machine_(machine) {}

  backend::AlgorithmChoices algorithm_choices(const graph::Program& training) const override {
    return {{training.graph.nodes[training.graph.nodes.size() - 2].name, {"own", "other"}}};
  }
  void use(const Algorithms& algorithms) override {
    machine_.algorithm = algorithms.empty() ? "own" : algorithms.begin()->second;
  }
  tensor::ParameterLayout layout(const graph::Program& training,
                                 backend::LayoutKind kind) override {
    return inner_->layout(training, kind);
  }
  std::unique_ptr<backend::Parameters> make_parameters(const tensor::ParameterLayout& layout,
                                                       int num_slots) override {
    return inner_->make_parameters(layout, num_slots);
  }
  std::unique_ptr<backend::Executable> prepare(const graph::Program& program,
                                               backend::Parameters& parameters) override {
    const bool is_narrow = std::ranges::any_of(program.graph.nodes, [](const graph::Node& node) {
      return node.type != tensor::DataType::kFloat32;
    });
    ++(is_narrow ? machine_.narrow_programs : machine_.programs);
    return inner_->prepare(program, parameters);
  }
  void to_canonical(const tensor::Segment& segment, std::span<const float> stored,
                    std::span<float> canonical) override {
    inner_->to_canonical(segment, stored, canonical);
  }
  void from_canonical(const tensor::Segment& segment, std::span<const float> canonical,
                      std::span<float> stored) override {
    inner_->from_canonical(segment, canonical, stored);
  }
  void update(const optim::UpdateRule& rule, const optim::LearningRate& rate, float statistic_parts,
              backend::Parameters& parameters) override {
    inner_->update(rule, rate, statistic_parts, parameters);
  }
  std::string fingerprint() const override { return "two names"; }

 private:
  Machine& machine_;
  std::unique_ptr<backend::Backend> inner_ = backend::make_reference_backend();
};

class AlgorithmTiming : public testing::Test {
 protected:
  Outcome train(Machine& machine, std::int64_t epochs, bool fixed_order,
                Precision precision = Precision::kFp32) {
    TrainOptions options = mlp_options();
    options.precision = precision;
    options.epochs = epochs;
    options.fixed_order = fixed_order;
    options.checkpoint.directory = directory_.path();
    World world = {.size = 1, .training = &small_images(), .test = nullptr};
    world.backend = [&machine](int) { return std::make_unique<TwoNames>(machine); };
    world.now = [&machine](int) { return machine.now(); };
    return run(options, world);
  }
  Algorithms saved() const { return newest(directory_.path()).state.algorithms; }

  CheckpointDirectory directory_;
};

TEST_F(AlgorithmTiming, the_faster_one_is_taken_told_saved_and_kept) {
  Machine machine;
  EXPECT_THAT(train(machine, 1, false).told.notes(), HasSubstr("timed the algorithms of 1 layers"));
  EXPECT_EQ(machine.algorithm, "other");
  ASSERT_EQ(saved().size(), 1U);
  EXPECT_EQ(saved().begin()->second, "other");

  Machine changed{.slow = "other"};
  EXPECT_THAT(train(changed, 2, false).told.notes(), Not(HasSubstr("timed")));
  EXPECT_EQ(changed.algorithm, "other");
  EXPECT_EQ(saved().begin()->second, "other");
}

TEST_F(AlgorithmTiming, the_devices_own_stays_where_nothing_is_faster) {
  Machine machine{.slow = "other"};
  EXPECT_THAT(train(machine, 1, false).told.notes(), HasSubstr("the usual ones are the fastest"));
  EXPECT_EQ(machine.algorithm, "own");
  EXPECT_TRUE(saved().empty());
}

TEST_F(AlgorithmTiming, a_step_in_bfloat16_is_timed_once_with_each_choice) {
  Machine fp32;
  train(fp32, 1, false);
  std::filesystem::remove_all(directory_.path());
  Machine bf16;
  train(bf16, 1, false, Precision::kBf16);
  EXPECT_EQ(bf16.narrow_programs, fp32.programs);
  EXPECT_EQ(bf16.programs, 1) << "to compare with";
}

TEST_F(AlgorithmTiming, who_is_promised_the_same_bits_waits_for_no_clock) {
  Machine machine;
  EXPECT_THAT(train(machine, 1, true).told.notes(), Not(HasSubstr("timed")));
  EXPECT_EQ(machine.algorithm, "own");
}

}  // namespace
}  // namespace coxswain::train
