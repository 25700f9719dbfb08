#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "trainer/contract/error.h"
#include "trainer/onnx/file.h"
#include "trainer/onnx/format.h"
#include "trainer/onnx/network.h"

namespace coxswain::onnx {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Ints = std::vector<std::int64_t>;

Tensor floats(const std::string& name, const Ints& dims) {
  return {.name = name, .dims = dims, .floats = std::vector<float>(elements_of(dims), 0.5F)};
}

// A convolution, ReLU, average and a dense layer.
Model small() {
  Model model{.where = "net.onnx", .opset = 17};
  model.inputs = {{"x", {-1, 3, 8, 8}}};
  model.outputs = {{"logits", {-1, 2}}};
  model.tensors = {floats("conv.weight", {4, 3, 3, 3}), floats("fc.weight", {2, 4})};
  model.nodes = {{.op = "Conv",
                  .name = "/conv/Conv",
                  .inputs = {"x", "conv.weight"},
                  .outputs = {"a"},
                  .attributes = {{"pads", Ints{1, 1, 1, 1}}}},
                 {.op = "Relu", .name = "relu", .inputs = {"a"}, .outputs = {"b"}},
                 {.op = "GlobalAveragePool", .name = "mean", .inputs = {"b"}, .outputs = {"c"}},
                 {.op = "Flatten", .name = "flat", .inputs = {"c"}, .outputs = {"d"}},
                 {.op = "Gemm",
                  .name = "fc",
                  .inputs = {"d", "fc.weight"},
                  .outputs = {"logits"},
                  .attributes = {{"transB", std::int64_t{1}}}}};
  return model;
}

std::string refusal_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("[model] net.onnx: "), Not(HasSubstr("\n"))));
    return error.what();
  }
  ADD_FAILURE() << "was accepted";
  return "";
}

// Of the small model with a change.
std::string refusal_with(const std::function<void(Model&)>& change) {
  Model model = small();
  change(model);
  return refusal_of([&] { weights_of(model); });
}

TEST(Onnx, images_are_floats) {
  for (const ElementType type : {ElementType::kHalf, ElementType::kBFloat16}) {
    Model model = small();
    model.inputs.front().type = type;
    EXPECT_EQ(weights_of(model).size(), 2U);
  }
  constexpr auto kUint8 = static_cast<ElementType>(2);
  for (const ElementType type : {ElementType::kInt64, kUint8}) {
    Model model = small();
    model.inputs.front().type = type;
    const std::string bytes = encode(model);
    const Model read = decode_model(std::as_bytes(std::span(bytes)), "net.onnx");
    EXPECT_EQ(read.inputs.front().type, type);
    EXPECT_THAT(refusal_of([&] { weights_of(read); }),
                HasSubstr("its input x is of TensorProto.DataType"));
  }
}

Node& relu(Model& model) { return model.nodes[1]; }

TEST(Onnx, small_model_is_read) { EXPECT_EQ(weights_of(small()).size(), 2U); }

TEST(Onnx, what_is_not_known_is_named_with_its_node) {
  const auto expect = [](const std::function<void(Model&)>& change, const std::string& said) {
    EXPECT_THAT(refusal_with(change), HasSubstr(said));
  };
  expect([](Model& m) { relu(m).op = "Einsum"; },
         "node relu (Einsum): an operation that is not known");
  expect([](Model& m) { relu(m).domain = "com.microsoft"; },
         "node relu (Relu): is of com.microsoft, whose operations are not known");
  expect([](Model& m) { relu(m).attributes = {{"slope", 1.0F}}; },
         "node relu (Relu): its attribute slope is not known");
  expect([](Model& m) { m.nodes[0].attributes = {{"pads", 1.0F}}; },
         "node /conv/Conv (Conv): its attribute pads is of another kind");
  expect([](Model& m) { m.nodes[0].attributes = {{"pads", Ints{0, 1, 1, 1}}}; },
         "node /conv/Conv (Conv): its pads before are 0, 1: must be 2, all the same");
  expect([](Model& m) { m.nodes[0].attributes = {{"pads", Ints{1, 1, 0, 1}}}; },
         "node /conv/Conv (Conv): its pads after are 0, 1: must be 2, all the same");
  expect([](Model& m) { m.nodes[0].attributes = {{"pads", Ints{1, 1}}}; },
         "node /conv/Conv (Conv): its pads are 1, 1: must be 4, all the same");
  expect([](Model& m) { m.nodes[0].attributes = {{"kernel_shape", Ints{5, 5}}}; },
         "node /conv/Conv (Conv): its kernel_shape is 5, 5, and its weights have 3, 3");
  expect([](Model& m) { m.nodes[0].attributes = {{"pads", Ints{0, 0, 3, 3}}}; },
         "node /conv/Conv (Conv): layer conv: window of kernel=3 stride=1 pad=0+3: kernel and");
  const auto transpose = [&](const Ints& perm, const std::string& said) {
    expect(
        [&](Model& m) {
          relu(m).op = "Transpose";
          relu(m).attributes = {{"perm", perm}};
        },
        said);
  };
  transpose({0, 2, 1, 3}, "node relu (Transpose): known where it brings the channels of images to");
  transpose({0, 3, 1, 2}, "node relu (Transpose): known where");
  transpose({0, 2, 3, 1}, "node mean (GlobalAveragePool): reads b, whose channels are last: known");
  const auto multiply = [&](const Ints& dims, const std::string& said) {
    expect(
        [&](Model& m) {
          relu(m).op = "Mul";
          relu(m).inputs = {"a", "factors"};
          m.tensors.push_back(floats("factors", dims));
          m.tensors.back().external = External{};
        },
        said);
  };
  multiply({3, 1, 1},
           "node relu (Mul): multiplies by what is no constant number, nor one for each channel");
  multiply({4, 8, 8},
           "node relu (Mul): multiplies by what is no constant number, nor one for each channel");
  multiply({4, 1, 1}, "tensor factors has no values");
  expect([](Model& m) { m.nodes[0].attributes = {{"strides", Ints{2, 1}}}; },
         "its strides are 2, 1");
  expect([](Model& m) { m.nodes[0].attributes = {{"dilations", Ints{2, 2}}}; },
         "its dilations must be 1");
  expect([](Model& m) { m.nodes[0].attributes = {{"group", std::int64_t{2}}}; },
         "node /conv/Conv (Conv): layer conv: 2 groups");
  expect(
      [](Model& m) {
        m.inputs[0].dims[2] = 9;
        m.nodes[0].attributes = {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2, 2}}};
      },
      "its auto_pad SAME_UPPER pads rows and columns of 9x8 images differently");
  expect(
      [](Model& m) {
        relu(m).op = "AveragePool";
        relu(m).attributes = {{"kernel_shape", Ints{3, 3}},
                              {"strides", Ints{2, 2}},
                              {"ceil_mode", std::int64_t{1}},
                              {"count_include_pad", std::int64_t{1}}};
      },
      "its ceil_mode gives a window that is not whole at 8x8, which is not known with count_inc");
  expect(
      [](Model& m) {
        m.inputs[0].dims[2] = 9;
        relu(m).op = "GlobalMaxPool";
      },
      "node relu (GlobalMaxPool): takes the maximum of 9x8, which must be square");
  expect([](Model& m) { m.tensors[0] = floats("conv.weight", {4, 3, 3, 1}); },
         "window's sides are 3, 1");
  expect([](Model& m) { m.tensors[0] = floats("conv.weight", {4, 2, 3, 3}); },
         "tensor conv.weight is (4, 2, 3, 3), and conv.weight needs (4, 3, 3, 3)");
  expect([](Model& m) { m.tensors[0] = floats("conv.weight", {4, 3, 30, 30}); },
         "does not fit its input");
  expect([](Model& m) { m.tensors[1] = floats("fc.weight", {2, 5}); },
         "tensor fc.weight is (2, 5), and fc.weight needs (2, 4)");
  expect(
      [](Model& m) {
        m.tensors[1].floats.clear();
        m.tensors[1].external = External{};
      },
      "tensor fc.weight has no values");
  expect([](Model& m) { m.nodes[4].attributes.push_back({"alpha", 2.0F}); },
         "node fc (Gemm): its alpha and beta must be 1");
  expect([](Model& m) { m.nodes[4].inputs[0] = "c"; }, "node fc (Gemm): reads c, which has rows");
  expect(
      [](Model& m) {
        relu(m).op = "Softmax";
        relu(m).attributes = {{"axis", std::int64_t{1}}};
      },
      "node mean (GlobalAveragePool): reads b, a softmax");
  expect([](Model& m) { relu(m).op = "Erf"; }, "node relu (Erf): known in a Gelu alone");
  expect(
      [](Model& m) {
        relu(m) = {.op = "Mul", .name = "m", .inputs = {"a", "x"}, .outputs = {"b"}};
      },
      "node m (Mul): layer multiply1: conv is 1x4x8x8, input is 1x3x8x8: must be of the same");
  expect([](Model& m) { relu(m).op = "Clip"; }, "node relu (Clip): must clip at both ends");
}

TEST(Onnx, graph_that_hangs_together_in_no_order_is_refused) {
  const auto expect = [](const std::function<void(Model&)>& change, const std::string& said) {
    EXPECT_THAT(refusal_with(change), HasSubstr(said));
  };
  expect([](Model& m) { m.nodes[0].inputs[0] = "b"; },
         "node /conv/Conv (Conv): reads b, which no node before it gives");  // a circle
  expect([](Model& m) { relu(m).inputs = {}; }, "node relu (Relu): has 0 inputs, and needs more");
  expect([](Model& m) { relu(m).inputs = {"fc.weight"}; }, "which is a constant, as images");
  expect([](Model& m) { relu(m).outputs = {"a"}; }, "node relu (Relu): gives a, which is there");
  expect([](Model& m) { m.nodes[4].inputs[1] = "d"; }, "reads d, which must be a constant");
  expect([](Model& m) { m.nodes[2].inputs[0] = "a"; },
         "layer relu1: the output does not depend on it");
  expect([](Model& m) { m.outputs[0].name = "nowhere"; }, "its output nowhere is given by no node");
  expect([](Model& m) { m.outputs.push_back({"b"}); }, "has 2 outputs: must be one");
  expect([](Model& m) { m.outputs[0].name = "b"; }, "must be one value a class");
  expect([](Model& m) { m.inputs.push_back({"y", {-1, 3, 8, 8}}); }, "has two inputs, x and y");
  expect([](Model& m) { m.inputs.clear(); }, "has no input");
  expect([](Model& m) { m.inputs[0].dims[2] = -1; }, "must be (N, C, H, W) of fixed C, H and W");
  expect([](Model& m) { m.opset = 6; }, "is of opset 6, 7 and later are read: convert it");
  expect([](Model& m) { m.opset = 99; },
         "is of opset 99, 28 is the newest that is read: export it with opset_version=28");
  expect([](Model& m) { m.tensors.push_back(m.tensors[0]); },
         "two tensors have the name conv.weight");
  expect(
      [](Model& m) {
        m.nodes.insert(m.nodes.begin() + 1, m.nodes[0]);
        m.nodes[1].inputs[0] = "x";
        m.nodes[1].outputs[0] = "a2";
      },
      "shares its weights conv.weight with another node");
}

TEST(Onnx, other_classes_need_a_last_layer) {
  Model model = small();
  model.nodes.push_back(
      {.op = "Add", .name = "twice", .inputs = {"logits", "logits"}, .outputs = {"e"}});
  model.outputs[0].name = "e";
  EXPECT_THAT(refusal_of([&] { translate(model, tensor::Shape{1, 3, 8, 8}, 5); }),
              HasSubstr("gives 2 values where 5 classes need 5, and has no last layer"));
}

std::string refusal_of_bytes(std::string_view bytes) {
  return refusal_of([&] { decode_model(std::as_bytes(std::span(bytes)), "net.onnx"); });
}

TEST(Onnx, bytes_that_are_no_model_are_refused) {
  const std::string whole = encode(small());
  EXPECT_EQ(encode(decode_model(std::as_bytes(std::span(whole)), "net.onnx")), whole);
  EXPECT_THAT(refusal_of_bytes(""), HasSubstr("is no ONNX model: it holds no graph"));
  EXPECT_THAT(refusal_of_bytes("input: [1, 28, 28]\nlayers:\n"), HasSubstr("is no ONNX model"));
  EXPECT_THAT(refusal_of_bytes(whole.substr(0, whole.size() / 2)),
              HasSubstr("is no ONNX model, or not all of one"));
  const auto refused = [](const std::function<void(Model&)>& change) {
    Model model = small();
    change(model);
    return refusal_of_bytes(encode(model));
  };
  EXPECT_THAT(refused([](Model& m) { m.tensors[0].floats.pop_back(); }),
              HasSubstr("tensor conv.weight: holds 428 bytes, its shape says 432"));
  EXPECT_THAT(refused([](Model& m) { m.tensors[0].dims = {1 << 20, 1 << 20, 1 << 20}; }),
              HasSubstr("tensor conv.weight: dimension 1048576 of its shape is out of range"));
  EXPECT_THAT(refused([](Model& m) { m.tensors[0].dims = {-4, 3, 3, 3}; }),
              HasSubstr("dimension -4 of its shape is out of range"));
  EXPECT_THAT(refused([](Model& m) { m.nodes.resize(10'001, m.nodes[1]); }),
              HasSubstr("more than 10000 nodes"));
  EXPECT_THAT(refused([](Model& m) { relu(m).name = std::string(2000, 'a'); }),
              HasSubstr("a name of 2000 bytes"));
}

// A folder with a model whose dense weights lie in a file beside it.
class Outside : public ::testing::Test {
 protected:
  Outside() {
    std::filesystem::create_directories(folder_ / "model");
    write("model/weights", std::string(100, '\0'));
    write("elsewhere", std::string(100, '\0'));
    std::filesystem::create_symlink(folder_ / "elsewhere", folder_ / "model/link");
  }
  ~Outside() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  // The encoder writes no locations: entries of external_data are added to the only external
  // tensor.
  Model read(const std::string& location, const std::string& offset = "0") const {
    Model model = small();
    model.tensors[1].floats.clear();
    model.tensors[1].external = External{};
    std::string bytes = encode(model);
    const auto entry = [](const std::string& key, const std::string& value) {
      const std::string inner = "\x0a" + std::string(1, static_cast<char>(key.size())) + key +
                                "\x12" + std::string(1, static_cast<char>(value.size())) + value;
      return "\x6a" + std::string(1, static_cast<char>(inner.size())) + inner;
    };
    const std::string added = entry("location", location) + entry("offset", offset);
    const std::string mark = "fc.weight\x70\x01";
    const std::size_t at = bytes.rfind(mark);
    bytes.insert(at + mark.size(), added);
    // The lengths of the tensor and of the graph, whose fields are 5 and 7.
    const std::size_t tensor_length = bytes.rfind("\x2a", at) + 1;
    bytes[tensor_length] =
        static_cast<char>(bytes[tensor_length] + static_cast<char>(added.size()));
    const std::size_t graph_length = bytes.find("\x3a") + 1;
    const unsigned length = (static_cast<unsigned char>(bytes[graph_length]) & 127U) +
                            (static_cast<unsigned char>(bytes[graph_length + 1]) << 7) +
                            static_cast<unsigned>(added.size());
    bytes[graph_length] = static_cast<char>((length & 127U) | 128U);
    bytes[graph_length + 1] = static_cast<char>(length >> 7);
    write("model/net.onnx", bytes);
    return read_model(folder_ / "model/net.onnx", Values::kWithWeights);
  }

  std::string refusal(const std::string& location, const std::string& offset = "0") const {
    return refusal_of([&] { read(location, offset); });
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / fmt::format("onnx-{}", ::getpid());
};

TEST_F(Outside, values_are_read_beside_the_model_alone) {
  EXPECT_EQ(read("weights", "68").tensors[1].floats, std::vector<float>(8, 0.0F));
  for (const char* location : {"../elsewhere", "link", "nowhere", ""})
    EXPECT_THAT(refusal(location), HasSubstr("tensor fc.weight: ")) << location;
  EXPECT_THAT(refusal((folder_ / "model/weights").string()),
              HasSubstr("which is no file in the model's folder"));
  EXPECT_THAT(refusal("../elsewhere"), HasSubstr("which is no file in the model's folder"));
  EXPECT_THAT(refusal("weights", "69"), HasSubstr("weights ends before byte 69 + 32"));
  EXPECT_THAT(refusal("weights", "-1"), HasSubstr("offset \"-1\" is no number"));
}

// Convolution and ReLU, with BatchNorms of these momenta between them.
Model normalised(const std::vector<std::optional<float>>& momenta) {
  Model model = small();
  for (const char* name : {"scale", "bias", "mean", "variance"})
    model.tensors.push_back(floats(name, {4}));
  std::string input = "a";
  for (std::size_t i = 0; i < momenta.size(); ++i) {
    Node norm{.op = "BatchNormalization",
              .name = fmt::format("norm{}", i),
              .inputs = {input, "scale", "bias", "mean", "variance"},
              .outputs = {input = fmt::format("n{}", i)}};
    if (momenta[i]) norm.attributes.push_back({"momentum", *momenta[i]});
    model.nodes.push_back(norm);
  }
  return model;
}

TEST(NormMomentum, is_one_for_all_or_refused_by_the_node_that_differs) {
  EXPECT_EQ(norm_momentum(small()), std::nullopt);
  EXPECT_EQ(norm_momentum(normalised({std::nullopt, 0.9F})), 0.9F);
  EXPECT_EQ(norm_momentum(normalised({0.6F})), 0.6F);
  EXPECT_THAT(refusal_of([] { norm_momentum(normalised({0.6F, std::nullopt})); }),
              AllOf(HasSubstr("norm1"), HasSubstr("its momentum is 0.9")));
  EXPECT_THAT(refusal_of([] { norm_momentum(normalised({1.5F})); }), HasSubstr("norm0"));
}

}  // namespace
}  // namespace coxswain::onnx
