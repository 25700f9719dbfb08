#include "trainer/amp_level.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

contract::TrainerConfig with(AmpLevel level, double loss_scale) {
  contract::TrainerConfig config;
  config.amp_level = level;
  config.loss_scale = loss_scale;
  return config;
}

// As in the ImageNet lab's text.
TEST(AmpLevel, is_told_as_apex_tells_it) {
  EXPECT_THAT(describe_amp_level(with(AmpLevel::kO2, 0)),
              ElementsAre("Selected optimization level O2:  FP16 training with FP32 batchnorm and "
                          "FP32 master weights.",
                          "Defaults for this optimization level are:",  //
                          "enabled                : True",              //
                          "opt_level              : O2",                //
                          "cast_model_type        : torch.float16",
                          "patch_torch_functions  : False",  //
                          "keep_batchnorm_fp32    : True",   //
                          "master_weights         : True",   //
                          "loss_scale             : dynamic",
                          "Processing user overrides (additional kwargs that are not None)...",
                          "After processing overrides, optimization options are:",
                          "enabled                : True",  //
                          "opt_level              : O2",    //
                          "cast_model_type        : torch.float16",
                          "patch_torch_functions  : False",  //
                          "keep_batchnorm_fp32    : True",   //
                          "master_weights         : True",   //
                          "loss_scale             : dynamic"));
}

TEST(AmpLevel, tells_what_was_asked_for_instead) {
  EXPECT_EQ(describe_amp_level(with(AmpLevel::kO1, 128)).at(8), "loss_scale             : dynamic");
  EXPECT_EQ(describe_amp_level(with(AmpLevel::kO1, 128)).back(), "loss_scale             : 128.0");
  EXPECT_EQ(describe_amp_level(with(AmpLevel::kO3, 1)).back(), "loss_scale             : 1.0");
  EXPECT_THAT(describe_amp_level(with(AmpLevel::kNone, 1)), IsEmpty());
}

}  // namespace
}  // namespace coxswain
