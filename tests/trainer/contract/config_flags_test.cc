#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trainer/contract/config/config_reader.h"

namespace coxswain::contract {

namespace {

constexpr std::string_view kFile = "model: singa-cnn\ndata: {format: mnist}\nbatchSize: 32\n";

ConfigResult read(const std::vector<std::string>& flags) {
  return read_config(kFile, "job.yaml", parse_config_flags(flags));
}

std::string error_of_flags(const std::vector<std::string>& flags) {
  try {
    read(flags);
    return "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
    EXPECT_LE(std::string_view(error.what()).size(), 400U) << error.what();
    return error.what();
  }
}

}  // namespace

TEST(ConfigFlags, win_over_the_file) {
  const ConfigResult result =
      read({"--batchSize=128", "--optimizer.lr", "0.5", "--checkpoint.resume=false",
            "--lrSchedule.name=multistep", "--lrSchedule.milestones=3,4.5",
            "--data.augment=[{pad-crop: {pad: 2}}, flip]", "--lrSchedule.gamma", "0.5"});
  EXPECT_EQ(result.config.batch_size, 128);
  EXPECT_EQ(result.config.optimizer.lr, 0.5);
  EXPECT_FALSE(result.config.checkpoint.resume);
  EXPECT_EQ(result.config.lr_schedule.milestones, (std::vector<double>{3, 4.5}));
  EXPECT_EQ(result.config.lr_schedule.gamma, 0.5);
  const std::vector<augment::Augmentation> augmentations = {augment::PadCrop{.pad = 2},
                                                            augment::Flip{}};
  EXPECT_EQ(result.config.data.augment, augmentations);
  EXPECT_EQ(result.origins.at("batchSize"), "flag");
  EXPECT_EQ(result.origins.at("model"), "job.yaml:1");
  EXPECT_FALSE(result.origins.contains("epochs"));
}

TEST(ConfigFlags, need_no_file) {
  const auto flags = parse_config_flags({"--model=mlp", "--data.format=synthetic"});
  EXPECT_EQ(read_config("", "", flags).config.model, Model::kMlp);
}

TEST(ConfigFlags, of_a_boolean_need_no_value) {
  EXPECT_TRUE(read({"--lrSchedule.name=onecycle", "--lrSchedule.cycleMomentum", "--epochs=3"})
                  .config.lr_schedule.cycle_momentum);
}

TEST(ConfigFlags, may_be_repeated_with_the_same_value) {
  EXPECT_EQ(read({"--epochs=3", "--epochs=3"}).config.epochs, 3);
}

TEST(ConfigFlags, are_refused_in_one_line) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"--epocs=3"}, "unknown flag \"--epocs\"; did you mean --epochs?"},
      {{"--lr=3"}, "unknown flag \"--lr\"; did you mean --optimizer.lr?"},
      {{"--batch-sise", "3"}, "unknown flag \"--batch-sise\"; did you mean --batchSize?"},
      {{"--zzzzz"}, "unknown flag \"--zzzzz\"; see --print-config for all"},
      {{"--optimizer={lr: 0.05}"},
       "unknown flag \"--optimizer\"; each of its keys is one: --optimizer.name"},
      {{"--data.channels=2"}, "--data.channels: must be 1 or 3: grey or colours"},
      {{"epochs=3"}, "unexpected argument \"epochs=3\""},
      {{"--steps=010"},
       "--steps: \"010\" is not the same number to all readers of YAML: write it in decimal"},
      {{"--epochs"}, "--epochs needs a value: an integer, 0..1000000"},
      {{"--epochs", "--seed=1"}, "--epochs needs a value: an integer, 0..1000000"},
      {{"--epochs=3", "--epochs=4"}, "--epochs is given twice: \"3\" and \"4\""},
      {{"--epochs=-1"}, "--epochs: out of range: must be an integer, 0..1000000, got -1"},
      {{"--epochs=abc"}, "--epochs: must be an integer, 0..1000000, got \"abc\""},
      {{"--epochs="}, "--epochs: must be an integer, 0..1000000, got \"\""},
      {{"--batchSize=2147483648"},
       "--batchSize: out of range: must be an integer, 1..1048576, got 2147483648"},
      {{"--optimizer.lr=nan"}, "--optimizer.lr: must be a finite number, got \"nan\""},
      {{"--optimizer.lr=1e400"}, "--optimizer.lr: must be a finite number, got \"1e400\""},
      {{"--seed=18446744073709551616"},
       "--seed: out of range: must be an integer, 0..18446744073709551615, got "
       "\"18446744073709551616\""},
      {{"--device=gpu"},
       "--device: must be one of cpu, cuda, auto, got \"gpu\"; did you mean cpu?"},
      {{"--precision=fp8"}, "--precision: must be one of fp32, bf16, fp16, got \"fp8\""},
      {{"--optimizer.name=adam", "--optimizer.momentum=0.9"},
       "--optimizer.momentum: only with optimizer.name one of sgd, nesterov, rmsprop, signum, "
       "lars, muon; here it is "
       "adam"},
      {{"--lrSchedule.milestones=[3"},
       "[config] --lrSchedule.milestones:1:1: end of sequence flow not found"},
      {{"--lrSchedule.milestones=x", "--lrSchedule.name=multistep"},
       "--lrSchedule.milestones[0]: must be a number, got \"x\""},
      {{"--checkpoint.path=a\x01"}, "--checkpoint.path: holds a control character: \"a\\x01\""},
      {{"--data.path=" + std::string(5000, 'x')},
       "argument \"--data.path=" + std::string(68, 'x') + "...\" is longer than 4096 bytes"},
      {std::vector<std::string>(10000, "--epochs=3"), "more than 1000 arguments"},
  };
  for (const auto& [flags, message] : cases)
    EXPECT_EQ(error_of_flags(flags), message) << flags[0].substr(0, 100);
}

}  // namespace coxswain::contract
