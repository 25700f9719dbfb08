#include "trainer/amp_level.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace coxswain {
namespace {

using ::testing::IsEmpty;

contract::TrainerConfig with(AmpLevel level, double loss_scale) {
  contract::TrainerConfig config;
  config.amp_level = level;
  config.loss_scale = loss_scale;
  return config;
}

// As in the ImageNet lab's text, twice: before and after what was asked for instead.
TEST(AmpLevel, is_told_as_apex_tells_it) {
  std::vector<std::string> expected{
      "Selected optimization level O2:  FP16 training with FP32 batchnorm and FP32 master weights.",
      "Defaults for this optimization level are:"};
  const auto options = {"enabled                : True",          "opt_level              : O2",
                        "cast_model_type        : torch.float16", "patch_torch_functions  : False",
                        "keep_batchnorm_fp32    : True",          "master_weights         : True",
                        "loss_scale             : dynamic"};
  expected.insert(expected.end(), options.begin(), options.end());
  expected.emplace_back("Processing user overrides (additional kwargs that are not None)...");
  expected.emplace_back("After processing overrides, optimization options are:");
  expected.insert(expected.end(), options.begin(), options.end());
  EXPECT_EQ(describe_amp_level(with(AmpLevel::kO2, 0)), expected);
}

TEST(AmpLevel, tells_what_was_asked_for_instead) {
  EXPECT_EQ(describe_amp_level(with(AmpLevel::kO1, 128)).at(8), "loss_scale             : dynamic");
  EXPECT_EQ(describe_amp_level(with(AmpLevel::kO1, 128)).back(), "loss_scale             : 128.0");
  EXPECT_EQ(describe_amp_level(with(AmpLevel::kO3, 1)).back(), "loss_scale             : 1.0");
  EXPECT_THAT(describe_amp_level(with(AmpLevel::kNone, 1)), IsEmpty());
}

}  // namespace
}  // namespace coxswain
