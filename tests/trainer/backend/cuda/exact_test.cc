#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "tests/support/cuda_host/device.h"
#include "tests/support/model_run.h"
#include "tests/support/operation_cases.h"
#include "trainer/backend/control.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/tensor/host_span.h"

// What must be the reference's bit for bit: everything elementwise, pools, and the update.
namespace coxswain::test {
namespace {

using backend::Parameters;
using graph::Op;
using graph::StepKind;

constexpr std::uint64_t kSeeds = 16;

bool is_exact(const graph::Program& program, const graph::Step& step) {
  static const std::set<Op> kExact{
      Op::kRelu,        Op::kTanh,          Op::kGelu,    Op::kSigmoid, Op::kSilu,   Op::kHardSwish,
      Op::kHardSigmoid, Op::kMultiply,      Op::kClip,    Op::kAdd,     Op::kConcat, Op::kMaxPool,
      Op::kAvgPool,     Op::kGlobalAvgPool, Op::kFlatten, Op::kDropout};
  return step.kind == StepKind::kJoinGradients ||
         kExact.contains(program.graph.nodes[static_cast<std::size_t>(step.node)].op);
}

class CudaExact : public testing::TestWithParam<OperationCase> {};

void expect_exact_steps(const graph::Graph& model, Precision precision, std::uint64_t seed) {
  cuda_host::set_seed(seed);
  const auto reference = backend::make_reference_backend();
  const auto cuda = backend::make_cuda_backend(0);
  ModelRun expected(*reference, model, {.precision = precision, .seed = seed});
  ModelRun actual(*cuda, model, {.precision = precision, .seed = seed});
  expected.executable->load(expected.batch);
  actual.executable->load(actual.batch);
  std::vector<float> images = expected.executable->fetch(0);
  const tensor::DataType narrow = graph::narrow_type(expected.program.graph);
  for (float& value : images) value = tensor::round_to(narrow, value);
  EXPECT_EQ(images, actual.executable->fetch(0)) << "images";
  for (std::size_t i = 0; i < expected.program.steps.size(); ++i) {
    const graph::Step& step = expected.program.steps[i];
    for (const int edge : step.reads)
      actual.executable->store(edge, expected.executable->fetch(edge));
    expected.executable->run(static_cast<int>(i));
    actual.executable->run(static_cast<int>(i));
    if (!is_exact(expected.program, step)) continue;
    for (const int edge : step.writes) {
      EXPECT_EQ(expected.executable->fetch(edge), actual.executable->fetch(edge))
          << expected.program.edges[static_cast<std::size_t>(edge)].name << ", seed " << seed;
    }
  }
}

TEST_P(CudaExact, elementwise_steps_give_the_bits_of_the_reference) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    SCOPED_TRACE(word(precision));
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed)
      expect_exact_steps(model_of(GetParam()), precision, seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, CudaExact, testing::ValuesIn(operation_cases()),
                         [](const auto& tested) { return tested.param.name; });

struct UpdateCase {
  const char* name;
  OptimizerKind kind;
  MomentumForm form;
  int slots;
  bool centered = false;
  float tolerance = 0;  // what is elementwise has none
};

class CudaUpdate : public testing::TestWithParam<UpdateCase> {
 protected:
  CudaUpdate() : reference_(backend::make_reference_backend()) {}

  // The same numbers everywhere, in the one canonical layout.
  void fill(Backend& backend, const ModelRun& run) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(0.1F, 2);
    const tensor::ParameterLayout& layout = run.parameters->layout();
    const auto put = [&](const tensor::Slice& all) {
      for (const tensor::Segment& s : layout.segments) {
        if (s.kind == tensor::SegmentKind::kControl) continue;
        std::vector<float> canonical(static_cast<std::size_t>(s.elements()));
        for (float& value : canonical) value = uniform(random);
        std::vector<float> stored(static_cast<std::size_t>(s.stored));
        backend.from_canonical(s, canonical, stored);
        run.parameters->memory().write(stored, all.range(s.offset, s.stored));
      }
    };
    put(run.parameters->weights());
    put(run.parameters->gradients());
    for (int slot = 0; slot < run.parameters->num_slots(); ++slot) put(run.parameters->slot(slot));
  }

  std::vector<float> all(Backend& backend, const ModelRun& run) {
    std::vector<float> result;
    const auto take = [&](const tensor::Slice& slice) {
      const std::vector<float> values = run.parameters->memory().snapshot(slice)();
      for (const tensor::Segment& s : run.parameters->layout().segments) {
        std::vector<float> canonical(static_cast<std::size_t>(s.elements()));
        backend.to_canonical(s,
                             std::span(values).subspan(static_cast<std::size_t>(s.offset),
                                                       static_cast<std::size_t>(s.stored)),
                             canonical);
        result.insert(result.end(), canonical.begin(), canonical.end());
      }
    };
    take(run.parameters->weights());
    take(run.parameters->gradients());
    for (int slot = 0; slot < run.parameters->num_slots(); ++slot) take(run.parameters->slot(slot));
    return result;
  }

  // Without a tolerance as bits: a NaN is equal to itself.
  void expect_same(const std::vector<float>& expected, const std::vector<float>& actual) {
    ASSERT_EQ(expected.size(), actual.size());
    const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
    std::size_t different = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const bool is_near = std::abs(expected[i] - actual[i]) < GetParam().tolerance;
      different += bits(expected[i]) == bits(actual[i]) || is_near ? 0U : 1U;
    }
    EXPECT_EQ(different, 0U) << "of " << expected.size();
  }

  std::unique_ptr<Backend> reference_;
  const graph::Graph model_ = model_of(operation_cases()[8]);  // has a norm
};

TEST_P(CudaUpdate, gives_the_bits_of_the_reference) {
  for (const DecayScope scope : {DecayScope::kAll, DecayScope::kWeights}) {
    const optim::UpdateRule rule{.kind = GetParam().kind,
                                 .form = GetParam().form,
                                 .decay_scope = scope,
                                 .weight_decay = 0.01F,
                                 .centered = GetParam().centered,
                                 .clip_norm = scope == DecayScope::kAll ? 0 : 0.5F,
                                 .ema_decay = scope == DecayScope::kAll ? 0.9F : 0,
                                 .rounds_to_half = scope == DecayScope::kAll};
    const int slots = GetParam().slots + (rule.ema_decay > 0 ? 1 : 0);
    const auto cuda = backend::make_cuda_backend(0);
    ModelRun expected(*reference_, model_, {.num_slots = slots});
    ModelRun actual(*cuda, model_, {.num_slots = slots});
    fill(*reference_, expected);
    fill(*cuda, actual);
    for (int step = 0; step < 3; ++step) {
      reference_->update(rule, {0.01F, 0.9F}, 2, *expected.parameters);
      cuda->update(rule, {0.01F, 0.9F}, 2, *actual.parameters);
    }
    expect_same(all(*reference_, expected), all(*cuda, actual));
  }
}

TEST_P(CudaUpdate, leaves_everything_as_it_is_when_something_is_not_finite) {
  const optim::UpdateRule rule{.kind = GetParam().kind, .form = GetParam().form};
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const auto cuda = backend::make_cuda_backend(0);
    ModelRun expected(*reference_, model_, {.num_slots = GetParam().slots});
    ModelRun actual(*cuda, model_, {.num_slots = GetParam().slots});
    fill(*reference_, expected);
    fill(*cuda, actual);
    for (const bool broken : {false, true, false}) {
      for (auto* run : {&expected, &actual}) {
        const tensor::Segment& s = run->segment("head.bias");
        const std::vector<float> value{broken ? bad : 1.0F};
        run->parameters->memory().write(value, run->parameters->gradients(s).range(3, 1));
      }
      reference_->update(rule, {0.01F, 0.9F}, 1, *expected.parameters);
      cuda->update(rule, {0.01F, 0.9F}, 1, *actual.parameters);
      const auto control = actual.parameters->gradients(actual.parameters->layout().control());
      EXPECT_EQ(actual.parameters->memory().snapshot(control)()[backend::kUpdated], broken ? 0 : 1);
    }
    expect_same(all(*reference_, expected), all(*cuda, actual));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, CudaUpdate,
    testing::Values(
        UpdateCase{"plain", OptimizerKind::kSgd, MomentumForm::kPyTorch, 0},
        UpdateCase{"sgd", OptimizerKind::kSgd, MomentumForm::kPyTorch, 1},
        UpdateCase{"mxnet_sgd", OptimizerKind::kSgd, MomentumForm::kMxnet, 1},
        UpdateCase{"nesterov", OptimizerKind::kNesterov, MomentumForm::kPyTorch, 1},
        UpdateCase{"mxnet_nesterov", OptimizerKind::kNesterov, MomentumForm::kMxnet, 1},
        UpdateCase{"adam", OptimizerKind::kAdam, MomentumForm::kPyTorch, 2},
        UpdateCase{"adamw", OptimizerKind::kAdamW, MomentumForm::kPyTorch, 2},
        UpdateCase{"rmsprop", OptimizerKind::kRmsProp, MomentumForm::kPyTorch, 2},
        UpdateCase{"centered_rmsprop", OptimizerKind::kRmsProp, MomentumForm::kMxnet, 3, true},
        UpdateCase{"adagrad", OptimizerKind::kAdaGrad, MomentumForm::kMxnet, 1},
        UpdateCase{"adadelta", OptimizerKind::kAdaDelta, MomentumForm::kPyTorch, 2},
        UpdateCase{"plain_signum", OptimizerKind::kSignum, MomentumForm::kPyTorch, 0},
        UpdateCase{"signum", OptimizerKind::kSignum, MomentumForm::kPyTorch, 1},
        UpdateCase{"plain_lars", OptimizerKind::kLars, MomentumForm::kPyTorch, 0},
        UpdateCase{"lars", OptimizerKind::kLars, MomentumForm::kPyTorch, 1},
        UpdateCase{"lamb", OptimizerKind::kLamb, MomentumForm::kPyTorch, 2},
        UpdateCase{"muon", OptimizerKind::kMuon, MomentumForm::kPyTorch, 2, false, 1e-6F}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace coxswain::test
