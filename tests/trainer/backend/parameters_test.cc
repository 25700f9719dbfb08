#include "trainer/backend/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "trainer/backend/control.h"
#include "trainer/backend/onednn/onednn_backend.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::backend {
namespace {

using tensor::host_span;
using tensor::SegmentKind;

tensor::ParameterLayout example() {
  return tensor::pack({{.name = "bn.running_mean",
                        .kind = SegmentKind::kStatistic,
                        .dims = {3},
                        .stored = 3},
                       {.name = "fc.weight", .dims = {5, 7}, .stored = 35}});
}

TEST(Parameters, start_as_zeros_and_slice_by_segment) {
  const auto backend = make_reference_backend();
  const auto parameters = backend->make_parameters(example(), 2);
  const Parameters& p = *parameters;
  EXPECT_EQ(p.num_slots(), 2);
  for (const auto& all : {p.weights(), p.gradients(), p.slot(0), p.slot(1)}) {
    EXPECT_EQ(all.size(), p.layout().size());
    EXPECT_THAT(host_span(all), ::testing::Each(0.0F));
  }
  const tensor::Segment& weight = p.layout().segments[1];
  float value = 0;
  for (const auto& part :
       {p.weights(weight), p.gradients(weight), p.slot(0, weight), p.slot(1, weight)}) {
    EXPECT_EQ(part.size(), 35);
    host_span(part)[3] = ++value;
  }
  value = 0;
  for (const auto& all : {p.weights(), p.gradients(), p.slot(0), p.slot(1)}) {
    EXPECT_EQ(host_span(all)[static_cast<std::size_t>(weight.offset) + 3], ++value);
  }
}

ControlSums control_of(const Parameters& p) {
  return read_control(host_span(p.gradients(p.layout().control())));
}

std::int64_t updates_of(const Parameters& p) {
  return read_update_count(host_span(p.weights(p.layout().control())));
}

TEST(Update, is_judged_counted_and_told_in_the_control_segment) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const auto& backend : {make_reference_backend(), make_onednn_backend({.threads = 2})}) {
    const auto parameters = backend->make_parameters(example(), 0);
    const Parameters& p = *parameters;
    write_update_count(std::int64_t{1} << 40, p);
    const auto weight = host_span(p.weights(p.layout().segments[1]));
    const auto gradient = host_span(p.gradients(p.layout().segments[1]));
    const auto control = host_span(p.gradients(p.layout().control()));
    gradient[34] = 2;
    control[3] = 5;  // the loss
    backend->update({}, {.lr = 0.5F}, 1, *parameters);
    EXPECT_TRUE(control_of(p).updated);
    EXPECT_EQ(control_of(p).loss, 5);
    EXPECT_EQ(updates_of(p), (std::int64_t{1} << 40) + 1);
    EXPECT_EQ(weight[34], -1);
    for (const float value : {kNan, kInfinity, -kInfinity}) {
      gradient[34] = value;
      backend->update({}, {.lr = 0.5F}, 1, *parameters);
      EXPECT_FALSE(control_of(p).updated);
    }
    gradient[34] = 2;
    control[5] = 1;  // a loss that is not finite
    backend->update({}, {.lr = 0.5F}, 1, *parameters);
    EXPECT_FALSE(control_of(p).updated);
    EXPECT_EQ(updates_of(p), (std::int64_t{1} << 40) + 1);
    EXPECT_EQ(weight[34], -1);
  }
}

}  // namespace
}  // namespace coxswain::backend
