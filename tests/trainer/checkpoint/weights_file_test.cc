#include "trainer/checkpoint/weights_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <span>
#include <string>

#include "tests/support/test_flags.h"
#include "tests/trainer/checkpoint/sample_checkpoint.h"
#include "trainer/checkpoint/export.h"
#include "trainer/checkpoint/format.h"
#include "trainer/contract/error.h"

namespace coxswain::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kGoldens = "tests/golden/weights/";

std::string refusal_of_file(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  ADD_FAILURE() << "was accepted";
  return "";
}

std::vector<NamedTensor> small_model() {
  return {{"bn0.running_mean", {1}, {0}},
          {"bn0.running_var", {1}, {1}},
          {"conv0.weight", {1, 1, 2, 2}, {0, 0, 0, 0}},
          {"bn0.weight", {1}, {1}},
          {"bn0.bias", {1}, {0}},
          {"fc.weight", {2, 1}, {8, 9}},
          {"fc.bias", {2}, {0, 0}}};
}

// tests/golden/weights/make.py
TEST(WeightsFile, of_mxnet_and_of_pytorch_are_the_same_weights) {
  for (const char* file : {"mxnet.params", "torch.safetensors"}) {
    SCOPED_TRACE(file);
    const ForeignWeights weights = read_weights(kGoldens + file);
    EXPECT_EQ(weights.tensors.size(), 5U);
    EXPECT_EQ(weights.passed_over.size(), 1U);
    std::vector<NamedTensor> model = small_model();
    const Placed placed = place_weights(weights, "fc", model, file);
    EXPECT_TRUE(placed.new_head);
    EXPECT_THAT(placed.unused, Not(Contains(HasSubstr("num_batches_tracked"))));
    EXPECT_EQ(model[0].values, std::vector<float>{3});
    EXPECT_EQ(model[1].values, std::vector<float>{4});
    EXPECT_EQ(model[2].values, (std::vector<float>{0.5F, -1, 2, 0.25F}));
    EXPECT_EQ(model[3].values, std::vector<float>{1.5F});
    EXPECT_EQ(model[4].values, std::vector<float>{-0.5F});
    EXPECT_EQ(model[5], small_model()[5]) << "the head keeps its first values";
  }
}

TEST(WeightsFile, may_be_what_export_writes) {
  test::TemporaryDirectory directory;
  PosixFileSystem files;
  const auto tensors = sample_contents(10).model;
  export_safetensors(files, tensors, directory.path() / "model.safetensors");
  std::filesystem::create_symlink("model.safetensors", directory.path() / "link");
  EXPECT_EQ(read_weights(directory.path() / "link").tensors, tensors);
}

TEST(WeightsFile, names_are_the_models) {
  for (const auto& [theirs, ours] : {std::pair("conv1.weight", "conv1.weight"),
                                     {"module.layer1.0.bn1.bias", "layer1.0.bn1.bias"},
                                     {"_orig_mod.conv1.weight", "conv1.weight"},
                                     {"_orig_mod.module.conv1.weight", "conv1.weight"},
                                     {"module._orig_mod.conv1.weight", "conv1.weight"},
                                     {"arg:stage1_unit1_conv1_weight", "stage1_unit1_conv1.weight"},
                                     {"arg:bn_data_beta", "bn_data.bias"},
                                     {"aux:bn1_moving_var", "bn1.running_var"},
                                     {"fc1_bias", "fc1.bias"}}) {
    EXPECT_EQ(model_name(theirs), ours);
  }
}

TEST(WeightsFile, is_refused_in_words_and_changes_nothing) {
  const ForeignWeights weights = read_weights(kGoldens + "torch.safetensors");
  const auto refusal = [&](const std::function<void(std::vector<NamedTensor>&)>& change) {
    std::vector<NamedTensor> model = small_model();
    change(model);
    const std::vector<NamedTensor> before = model;
    const std::string text = refusal_of_file([&] { place_weights(weights, "fc", model, "file"); });
    EXPECT_EQ(model, before);
    return text;
  };
  EXPECT_THAT(refusal([](auto& model) { model[2].dims = {4, 1, 1, 1}; }),
              HasSubstr("tensor \"module.conv0.weight\" is (1, 1, 2, 2), and the model's is (4, 1, "
                        "1, 1)"));
  EXPECT_THAT(refusal([](auto& model) { model.push_back({"conv9.weight", {1}, {0}}); }),
              AllOf(HasSubstr("has nothing for 1 of the model's 8 tensors: conv9.weight"),
                    HasSubstr("it has \"module.bn0.running_mean\"")));
  ForeignWeights twice = weights;
  twice.tensors.push_back({"conv0_weight", {1}, {0}});
  std::vector<NamedTensor> model = small_model();
  EXPECT_THAT(refusal_of_file([&] { place_weights(twice, "fc", model, "file"); }),
              HasSubstr("are one tensor of the model"));
  ForeignWeights doubles = weights;
  doubles.passed_over.emplace_back("module.fc.weight");
  EXPECT_THAT(refusal_of_file([&] { place_weights(doubles, "fc", model, "file"); }),
              HasSubstr("tensor \"module.fc.weight\" is of a type that is not read: save it as"));
  ForeignWeights not_finite = weights;
  not_finite.tensors.front().values.front() = NAN;
  EXPECT_THAT(refusal_of_file([&] { place_weights(not_finite, "fc", model, "file"); }),
              HasSubstr("not finite"));
  ForeignWeights negative = weights;
  for (NamedTensor& tensor : negative.tensors)
    if (tensor.name.ends_with("running_var")) tensor.values.front() = -0.5F;
  EXPECT_THAT(refusal_of_file([&] { place_weights(negative, "fc", model, "file"); }),
              HasSubstr("tensor \"module.bn0.running_var\" holds -0.5, and a variance is not "
                        "negative"));
  EXPECT_EQ(model, small_model());
}

// A safetensors file of this header.
std::string with_header(const std::string& header, std::size_t data_bytes) {
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + std::string(data_bytes, '\0');
}

TEST(WeightsFile, may_hold_tensors_that_are_empty_or_of_types_of_elsewhere) {
  const std::string file =
      with_header(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                  R"("none":{"dtype":"F32","shape":[0,3],"data_offsets":[8,8]},)"
                  R"("c":{"dtype":"C64","shape":[1],"data_offsets":[8,16]}})",
                  16);
  const ForeignWeights weights = decode_weights(std::as_bytes(std::span(file)), "file");
  ASSERT_EQ(weights.tensors.size(), 2U);
  EXPECT_EQ(weights.tensors[0].values.size(), 2U);
  EXPECT_EQ(weights.tensors[1].values.size(), 0U);
  EXPECT_THAT(weights.passed_over, ::testing::ElementsAre("c"));
}

TEST(WeightsFile, that_is_cut_or_none_is_refused_in_words) {
  for (const char* file : {"mxnet.params", "torch.safetensors"}) {
    const std::string whole = read_bytes(kGoldens + file);
    const auto bytes = std::as_bytes(std::span(whole));
    for (std::size_t size = 0; size < whole.size(); ++size)
      refusal_of_file([&] { decode_weights(bytes.first(size), "file"); });
    const std::string longer = whole + "x";
    refusal_of_file([&] { decode_weights(std::as_bytes(std::span(longer)), "file"); });
  }
  const std::string text = "PK\x03\x04 a zip file, as torch.save writes";
  EXPECT_THAT(refusal_of_file([&] { decode_weights(std::as_bytes(std::span(text)), "net.pth"); }),
              HasSubstr("net.pth: is what torch.save writes"));
  test::TemporaryDirectory directory;
  PosixFileSystem files;
  export_npz(files, sample_contents(10).model, directory.path() / "net.npz");
  EXPECT_THAT(refusal_of_file([&] { read_weights(directory.path() / "net.npz"); }),
              HasSubstr("net.npz: is NumPy's .npz: write it with"));
  EXPECT_THAT(refusal_of_file([&] { decode_weights({}, "empty"); }),
              HasSubstr("neither safetensors nor MXNet's"));
  const std::string words = "These are words, and no weights.";
  EXPECT_THAT(refusal_of_file([&] { decode_weights(std::as_bytes(std::span(words)), "notes"); }),
              HasSubstr("neither safetensors nor MXNet's"));
  const std::string index = R"({"metadata": {}, "weight_map": {}})";
  EXPECT_THAT(refusal_of_file([&] { decode_weights(std::as_bytes(std::span(index)), "index"); }),
              HasSubstr("is JSON: of an index name the file that it tells of"));
}

// Its first byte is '{', as JSON's is.
TEST(WeightsFile, a_header_of_123_bytes_is_no_json) {
  std::string header = R"({"fc1.bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  header.resize('{', ' ');
  const std::string file = "{" + std::string(7, '\0') + header + std::string(4, '\0');
  const ForeignWeights weights = decode_weights(std::as_bytes(std::span(file)), "net.safetensors");
  ASSERT_EQ(weights.tensors.size(), 1);
  EXPECT_EQ(weights.tensors[0].name, "fc1.bias");
}

}  // namespace
}  // namespace coxswain::checkpoint
