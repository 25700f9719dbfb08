#include "trainer/amp_level.h"

#include <fmt/format.h>

namespace coxswain {

namespace {

// Value. A level's row of Apex's table.
struct Level {
  const char* brief;
  const char* cast_model_type;
  const char* patch_torch_functions;
  const char* keep_batchnorm_fp32;
  const char* master_weights;
  const char* loss_scale;
};

Level row_of(AmpLevel level) {
  switch (level) {
    case AmpLevel::kNone:
    case AmpLevel::kO0:
      break;
    case AmpLevel::kO1:
      return {"Insert automatic casts around Pytorch functions and Tensor methods.",
              "None",
              "True",
              "None",
              "None",
              "dynamic"};
    case AmpLevel::kO2:
      return {"FP16 training with FP32 batchnorm and FP32 master weights.",
              "torch.float16",
              "False",
              "True",
              "True",
              "dynamic"};
    case AmpLevel::kO3:
      return {"Pure FP16 training.", "torch.float16", "False", "False", "False", "1.0"};
  }
  return {"Pure FP32 training.", "torch.float32", "False", "None", "False", "1.0"};
}

std::string loss_scale_text(double scale) {
  if (scale > 0) return fmt::format("{:.1f}", scale);
  return scale == 0 ? "dynamic" : "tf";
}

void append(std::vector<std::string>& lines, AmpLevel level, const std::string& loss_scale) {
  const Level row = row_of(level);
  const auto line = [&](const char* key, const std::string& value) {
    lines.push_back(fmt::format("{:22} : {}", key, value));
  };
  line("enabled", "True");
  line("opt_level", std::string(word(level)));
  line("cast_model_type", row.cast_model_type);
  line("patch_torch_functions", row.patch_torch_functions);
  line("keep_batchnorm_fp32", row.keep_batchnorm_fp32);
  line("master_weights", row.master_weights);
  line("loss_scale", loss_scale);
}

}  // namespace

std::vector<std::string> describe_amp_level(const contract::TrainerConfig& config) {
  const AmpLevel level = config.amp_level;
  if (level == AmpLevel::kNone) return {};
  std::vector<std::string> lines{
      fmt::format("Selected optimization level {}:  {}", word(level), row_of(level).brief),
      "Defaults for this optimization level are:"};
  append(lines, level, row_of(level).loss_scale);
  lines.emplace_back("Processing user overrides (additional kwargs that are not None)...");
  lines.emplace_back("After processing overrides, optimization options are:");
  append(lines, level, loss_scale_text(config.loss_scale));
  return lines;
}

}  // namespace coxswain
