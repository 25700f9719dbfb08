#include "trainer/optim/update_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/support/test_flags.h"
#include "trainer/tensor/philox.h"

namespace coxswain::optim {
namespace {

using tensor::ParameterLayout;
using tensor::SegmentKind;

tensor::Segment segment(const std::string& name, SegmentKind kind, std::int64_t elements) {
  return {.name = name, .kind = kind, .dims = {elements}, .stored = elements};
}

// Sizes that are no multiple of a vector, so that every loop has a remainder.
ParameterLayout all_kinds() {
  return tensor::pack({segment("bn.running_mean", SegmentKind::kStatistic, 21),
                       segment("conv.weight", SegmentKind::kWeight, 1003),
                       segment("conv.bias", SegmentKind::kBias, 7),
                       segment("bn.weight", SegmentKind::kGamma, 33),
                       segment("bn.bias", SegmentKind::kBeta, 17)});
}

// All that a trainer keeps of a model, in one order.
class ParameterBuffer {
 public:
  ParameterBuffer(ParameterLayout layout, int slots) : layout_(std::move(layout)) {
    const auto size = static_cast<std::size_t>(layout_.size());
    arrays_.assign(2 + static_cast<std::size_t>(slots), std::vector<float>(size));
  }
  const ParameterLayout& layout() const { return layout_; }
  int num_slots() const { return static_cast<int>(arrays_.size()) - 2; }
  std::span<float> weights() { return arrays_[0]; }
  std::span<float> gradients() { return arrays_[1]; }
  std::span<float> slot(int index) { return arrays_[2 + static_cast<std::size_t>(index)]; }
  std::span<float> weights(const tensor::Segment& s) { return of(weights(), s); }
  std::span<float> gradients(const tensor::Segment& s) { return of(gradients(), s); }
  std::span<float> slot(int index, const tensor::Segment& s) { return of(slot(index), s); }

 private:
  static std::span<float> of(std::span<float> all, const tensor::Segment& s) {
    return all.subspan(static_cast<std::size_t>(s.offset), static_cast<std::size_t>(s.stored));
  }

  ParameterLayout layout_;
  std::vector<std::vector<float>> arrays_;
};

// The segments [first, last).
void update(const UpdateRule& rule, const UpdateStep& step, ParameterBuffer& parameters, int first,
            int last) {
  for (int i = first; i < last; ++i) {
    const tensor::Segment& segment = parameters.layout().segments[static_cast<std::size_t>(i)];
    SegmentPart part{segment.kind, parameters.weights(segment), parameters.gradients(segment), {}};
    for (int slot = 0; slot < parameters.num_slots(); ++slot) {
      part.slots[static_cast<std::size_t>(slot)] = parameters.slot(slot, segment);
    }
    update(rule, step, part);
  }
}

// Every float of every array differs and is reproducible; scale and sign vary.
void fill(std::span<float> values, std::uint32_t stream) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto words = tensor::philox(test::flags().seed,
                                      {.stream = stream, .index = static_cast<std::uint32_t>(i)});
    values[i] = tensor::to_normal(words[0], words[1])[0];
  }
}

// One element under the textbook formula, every operation rounded to float.
struct Scalar {
  float w, v, m2;
};

Scalar reference(const UpdateRule& rule, const UpdateStep& step, bool slots, float decay, Scalar s,
                 float g) {
  const float lr = step.lr;
  const float mu = step.momentum;
  const float decayed = decay * s.w;
  const float gradient = g + decayed;
  if (rule.kind == OptimizerKind::kAdam) {
    const auto t = static_cast<double>(step.update_count);
    const auto corrected = static_cast<float>(lr / (1 - std::pow(static_cast<double>(mu), t)));
    const auto root =
        static_cast<float>(std::sqrt(1 - std::pow(static_cast<double>(rule.beta2), t)));
    s.v = mu * s.v + (1 - mu) * gradient;
    s.m2 = rule.beta2 * s.m2 + (1 - rule.beta2) * (gradient * gradient);
    s.w -= corrected * s.v / (std::sqrt(s.m2) / root + rule.epsilon);
    return s;
  }
  if (!slots) {
    s.w -= lr * gradient;
    return s;
  }
  const bool nesterov = rule.kind == OptimizerKind::kNesterov;
  if (rule.form == MomentumForm::kPyTorch) {
    s.v = mu * s.v + gradient;
    const float ahead = gradient + mu * s.v;
    s.w -= lr * (nesterov ? ahead : s.v);
    return s;
  }
  const float move = lr * gradient;
  s.v = mu * s.v - move;
  s.w += nesterov ? mu * s.v - move : s.v;
  return s;
}

struct Case {
  std::string name;
  UpdateRule rule;
  int slots;
};

// Those that have a formula to themselves here.
std::vector<Case> scalar_rules() {
  std::vector<Case> cases;
  for (const auto kind : {OptimizerKind::kSgd, OptimizerKind::kNesterov, OptimizerKind::kAdam}) {
    for (const auto form : {MomentumForm::kPyTorch, MomentumForm::kMxnet}) {
      for (const auto scope :
           {DecayScope::kAll, DecayScope::kWeights, DecayScope::kWeightsAndGamma}) {
        for (const bool momentum : {true, false}) {
          const UpdateRule rule{
              .kind = kind, .form = form, .decay_scope = scope, .weight_decay = 5e-4F};
          cases.push_back({"kind " + std::to_string(static_cast<int>(kind)) + " form " +
                               std::to_string(static_cast<int>(form)) + " scope " +
                               std::to_string(static_cast<int>(scope)) + " momentum " +
                               std::to_string(momentum),
                           rule, static_cast<int>(slot_names(rule, momentum).size())});
        }
      }
    }
  }
  return cases;
}

// The others are compared with their peers, in peers_test.cc.
std::vector<Case> all_rules() {
  std::vector<Case> cases = scalar_rules();
  for (const auto kind : {OptimizerKind::kAdamW, OptimizerKind::kRmsProp, OptimizerKind::kAdaGrad,
                          OptimizerKind::kAdaDelta, OptimizerKind::kSignum, OptimizerKind::kLars,
                          OptimizerKind::kLamb, OptimizerKind::kMuon}) {
    for (const bool momentum : {true, false}) {
      for (const bool centered : {true, false}) {
        const UpdateRule rule{.kind = kind,
                              .form = centered ? MomentumForm::kMxnet : MomentumForm::kPyTorch,
                              .weight_decay = 5e-4F,
                              .centered = centered};
        cases.push_back({"kind " + std::to_string(static_cast<int>(kind)) + " momentum " +
                             std::to_string(momentum) + " centered " + std::to_string(centered),
                         rule, static_cast<int>(slot_names(rule, momentum).size())});
      }
    }
  }
  return cases;
}

TEST(Update, equals_the_scalar_formula_bit_for_bit_in_every_rule_form_and_scope) {
  for (const Case& c : scalar_rules()) {
    ParameterBuffer actual(all_kinds(), c.slots);
    fill(actual.weights(), 1);
    fill(actual.gradients(), 2);
    for (int slot = 0; slot < c.slots; ++slot) fill(actual.slot(slot), 3);
    if (c.slots == 2) {
      for (float& v : actual.slot(1)) v = v * v;  // a second moment is not negative
    }
    const UpdateStep step{.lr = 0.05F, .momentum = 0.9F, .update_count = 3, .statistic_parts = 4};
    const auto& segments = actual.layout().segments;
    std::vector<Scalar> expected(actual.weights().size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = {actual.weights()[i], c.slots > 0 ? actual.slot(0)[i] : 0,
                     c.slots > 1 ? actual.slot(1)[i] : 0};
    }
    for (const auto& s : segments) {
      const float decay = decays(c.rule.decay_scope, s.kind) ? c.rule.weight_decay : 0;
      for (auto i = static_cast<std::size_t>(s.offset); i < static_cast<std::size_t>(s.end());
           ++i) {
        const float g = actual.gradients()[i];
        if (s.kind == SegmentKind::kStatistic) {
          expected[i].w = (1 - 0.1F) * expected[i].w + 0.1F * (g / 4);
        } else if (tensor::is_trainable(s.kind)) {
          expected[i] = reference(c.rule, step, c.slots > 0, decay, expected[i], g);
        }
      }
    }

    update(c.rule, step, actual, 0, static_cast<int>(segments.size()));

    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual.weights()[i], expected[i].w) << c.name << " element " << i;
      if (c.slots > 0) {
        ASSERT_EQ(actual.slot(0)[i], expected[i].v) << c.name << " element " << i;
      }
      if (c.slots > 1) {
        ASSERT_EQ(actual.slot(1)[i], expected[i].m2) << c.name << " element " << i;
      }
    }
  }
}

TEST(Update, segment_ranges_give_the_same_bits_as_one_pass_and_touch_nothing_else) {
  for (const Case& c : all_rules()) {
    ParameterBuffer whole(all_kinds(), c.slots);
    ParameterBuffer pieces(all_kinds(), c.slots);
    for (ParameterBuffer* buffer : {&whole, &pieces}) {
      fill(buffer->weights(), 1);
      fill(buffer->gradients(), 2);
    }
    const int count = static_cast<int>(whole.layout().segments.size());
    for (int t = 1; t <= 3; ++t) {
      const UpdateStep step{.lr = 0.1F, .momentum = 0.9F, .update_count = t};
      update(c.rule, step, whole, 0, count);
      for (int i = count - 1; i >= 0; --i) update(c.rule, step, pieces, i, i + 1);
    }
    ASSERT_EQ(
        std::memcmp(whole.weights().data(), pieces.weights().data(), whole.weights().size_bytes()),
        0)
        << c.name;
    const auto& first = pieces.layout().segments[1];
    const std::vector<float> before(pieces.weights().begin(), pieces.weights().end());
    update(c.rule, {.lr = 0.1F, .momentum = 0.9F}, pieces, 1, 2);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const bool inside = at >= first.offset && at < first.end();
      if (!inside) {
        ASSERT_EQ(pieces.weights()[i], before[i]) << c.name << " element " << i;
      }
    }
  }
}

TEST(Update, any_cut_of_a_segment_gives_the_same_bits) {
  for (const Case& c : all_rules()) {
    if (is_layerwise(c.rule.kind)) continue;
    ParameterBuffer whole(all_kinds(), c.slots);
    ParameterBuffer pieces(all_kinds(), c.slots);
    for (ParameterBuffer* buffer : {&whole, &pieces}) {
      fill(buffer->weights(), 1);
      fill(buffer->gradients(), 2);
    }
    const int count = static_cast<int>(whole.layout().segments.size());
    for (int t = 1; t <= 3; ++t) {
      const UpdateStep step{.lr = 0.1F, .momentum = 0.9F, .update_count = t};
      update(c.rule, step, whole, 0, count);
      for (const tensor::Segment& s : pieces.layout().segments) {
        const auto stored = static_cast<std::size_t>(s.stored);
        for (std::size_t first = 0, size = 1; first < stored; first += size, size = 2 * size + 3) {
          size = std::min(size, stored - first);
          SegmentPart part{s.kind,
                           pieces.weights(s).subspan(first, size),
                           pieces.gradients(s).subspan(first, size),
                           {}};
          for (int i = 0; i < c.slots; ++i) {
            part.slots[static_cast<std::size_t>(i)] = pieces.slot(i, s).subspan(first, size);
          }
          update(c.rule, step, part);
        }
      }
    }
    for (int i = 0; i < c.slots; ++i) {
      ASSERT_EQ(
          std::memcmp(whole.slot(i).data(), pieces.slot(i).data(), whole.slot(i).size_bytes()), 0)
          << c.name;
    }
    ASSERT_EQ(
        std::memcmp(whole.weights().data(), pieces.weights().data(), whole.weights().size_bytes()),
        0)
        << c.name;
  }
}

TEST(Update, keeps_zero_padding_zero_and_the_control_segment_untouched) {
  for (const Case& c : all_rules()) {
    ParameterBuffer buffer(
        tensor::pack({{.name = "fc.weight", .kind = SegmentKind::kWeight, .dims = {3}, .stored = 8},
                      {.name = "bn.running_var",
                       .kind = SegmentKind::kStatistic,
                       .dims = {3},
                       .stored = 8}}),
        c.slots);
    const auto& segments = buffer.layout().segments;
    for (int i : {0, 1}) {
      for (std::size_t k = 0; k < 3; ++k) {
        buffer.weights(segments[static_cast<std::size_t>(i)])[k] = 1;
        buffer.gradients(segments[static_cast<std::size_t>(i)])[k] = 2;
      }
    }
    for (float& g : buffer.gradients(buffer.layout().control())) g = 7;
    for (int t = 1; t <= 5; ++t) {
      update(c.rule, {.lr = 0.1F, .momentum = 0.9F, .update_count = t}, buffer, 0,
             static_cast<int>(segments.size()));
    }
    for (int i : {0, 1}) {
      for (std::size_t k = 3; k < 8; ++k) {
        ASSERT_EQ(buffer.weights(segments[static_cast<std::size_t>(i)])[k], 0) << c.name;
      }
    }
    for (float w : buffer.weights(buffer.layout().control())) ASSERT_EQ(w, 0) << c.name;
    for (float g : buffer.gradients(buffer.layout().control())) ASSERT_EQ(g, 7) << c.name;
  }
}

// One weight, w = 1, g = 0.5, wd = 0.1, mu = 0.9, at lr 0.1, 0.1 and 0.01: by hand, in exact
// arithmetic. While the rate is constant the forms agree; at its change they differ by
// (0.1 - 0.01) * 0.9 * v.
TEST(Update, momentum_forms_agree_until_the_rate_changes) {
  struct Row {
    OptimizerKind kind;
    MomentumForm form;
    double after[3];
  };
  const std::vector<Row> rows = {
      {OptimizerKind::kSgd, MomentumForm::kPyTorch, {0.94, 0.8266, 0.8105674}},
      {OptimizerKind::kSgd, MomentumForm::kMxnet, {0.94, 0.8266, 0.7187134}},
      {OptimizerKind::kNesterov, MomentumForm::kPyTorch, {0.886, 0.725566, 0.70554577}},
      {OptimizerKind::kNesterov, MomentumForm::kMxnet, {0.886, 0.725566, 0.62327083}},
  };
  const float rates[3] = {0.1F, 0.1F, 0.01F};
  for (const Row& row : rows) {
    ParameterBuffer buffer(tensor::pack({segment("w", SegmentKind::kWeight, 1)}), 1);
    buffer.weights()[0] = 1;
    for (int t = 0; t < 3; ++t) {
      buffer.gradients()[0] = 0.5F;
      update({.kind = row.kind, .form = row.form, .weight_decay = 0.1F},
             {.lr = rates[t], .momentum = 0.9F, .update_count = t + 1}, buffer, 0, 1);
      EXPECT_NEAR(buffer.weights()[0], row.after[t], 3e-6)
          << "kind " << static_cast<int>(row.kind) << " form " << static_cast<int>(row.form)
          << " step " << t;
    }
  }
}

// w = 1, g = 0.5, -0.25, 1; lr 0.1, beta 0.9 and 0.999. The first step is lr * sign(g).
TEST(Update, adam_follows_the_paper) {
  ParameterBuffer buffer(tensor::pack({segment("w", SegmentKind::kWeight, 1)}), 2);
  buffer.weights()[0] = 1;
  const float gradients[3] = {0.5F, -0.25F, 1.0F};
  const double after[3] = {0.9, 0.8733663, 0.80755514};
  for (int t = 0; t < 3; ++t) {
    buffer.gradients()[0] = gradients[t];
    update({.kind = OptimizerKind::kAdam}, {.lr = 0.1F, .momentum = 0.9F, .update_count = t + 1},
           buffer, 0, 1);
    EXPECT_NEAR(buffer.weights()[0], after[t], 2e-6) << "step " << t;
  }
}

TEST(Update, running_statistics_average_the_parts_without_decay_or_slots) {
  ParameterBuffer buffer(tensor::pack({segment("mean", SegmentKind::kStatistic, 1)}), 1);
  buffer.weights()[0] = 2;
  buffer.gradients()[0] = 12;  // of 4 parts: 3
  buffer.slot(0)[0] = 5;
  update({.weight_decay = 0.5F, .statistic_momentum = 0.25F},
         {.lr = 0.1F, .momentum = 0.9F, .statistic_parts = 4}, buffer, 0, 1);
  EXPECT_EQ(buffer.weights()[0], 2.25F);  // 0.75 * 2 + 0.25 * 3
  EXPECT_EQ(buffer.slot(0)[0], 5);
}

TEST(Rule, decay_scopes_choose_segments_by_kind) {
  struct Row {
    SegmentKind kind;
    bool all, weights, weights_and_gamma;
  };
  const std::vector<Row> rows = {
      {SegmentKind::kWeight, true, true, true},       {SegmentKind::kBias, true, false, false},
      {SegmentKind::kGamma, true, false, true},       {SegmentKind::kBeta, true, false, false},
      {SegmentKind::kStatistic, false, false, false}, {SegmentKind::kControl, false, false, false}};
  for (const Row& row : rows) {
    EXPECT_EQ(decays(DecayScope::kAll, row.kind), row.all);
    EXPECT_EQ(decays(DecayScope::kWeights, row.kind), row.weights);
    EXPECT_EQ(decays(DecayScope::kWeightsAndGamma, row.kind), row.weights_and_gamma);
  }
}

TEST(Rule, names_the_slots_that_its_formula_needs) {
  using testing::ElementsAre;
  const auto names = [](OptimizerKind kind, bool has_momentum) {
    return slot_names({.kind = kind}, has_momentum);
  };
  EXPECT_THAT(names(OptimizerKind::kSgd, false), ElementsAre());
  EXPECT_THAT(names(OptimizerKind::kSgd, true), ElementsAre("momentum_buffer"));
  EXPECT_THAT(names(OptimizerKind::kNesterov, true), ElementsAre("momentum_buffer"));
  EXPECT_THAT(names(OptimizerKind::kAdam, true), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(names(OptimizerKind::kAdam, false), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(names(OptimizerKind::kAdamW, true), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(names(OptimizerKind::kRmsProp, false), ElementsAre("square_avg"));
  EXPECT_THAT(names(OptimizerKind::kRmsProp, true), ElementsAre("square_avg", "momentum_buffer"));
  EXPECT_THAT(slot_names({.kind = OptimizerKind::kRmsProp, .centered = true}, true),
              ElementsAre("square_avg", "grad_avg", "momentum_buffer"));
  EXPECT_THAT(names(OptimizerKind::kAdaGrad, false), ElementsAre("sum"));
  EXPECT_THAT(names(OptimizerKind::kAdaDelta, false), ElementsAre("square_avg", "acc_delta"));
  EXPECT_THAT(names(OptimizerKind::kSignum, true), ElementsAre("momentum_buffer"));
  EXPECT_THAT(names(OptimizerKind::kSignum, false), ElementsAre());
}

}  // namespace
}  // namespace coxswain::optim
