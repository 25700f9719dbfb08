#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numbers>
#include <set>

#include "trainer/contract/error.h"
#include "trainer/graph/passes.h"
#include "trainer/onnx/network.h"

namespace coxswain::onnx {

namespace {

constexpr std::int64_t kOpset = 17;

// Writes nodes for those of a graph, whose shapes are known, under their names.
class Writer {
 public:
  Writer(const graph::Graph& graph, const std::vector<checkpoint::NamedTensor>& weights)
      : graph_(graph) {
    for (const checkpoint::NamedTensor& tensor : weights) weights_[tensor.name] = &tensor;
    for (graph::Parameter& parameter : graph::parameters(graph))
      dims_[parameter.name] = std::move(parameter.dims);
    const tensor::Shape& in = graph.input().shape;
    model_.opset = kOpset;
    model_.where = "the model";
    model_.inputs = {{"input", {-1, in.c, in.h, in.w}}};
    model_.outputs = {{"logits", {-1, graph.logits().shape.c}}};
  }

  Model run() {
    values_.push_back({"input", false});
    const std::size_t logits = static_cast<std::size_t>(graph_.loss().inputs.front());
    for (std::size_t i = 1; i < graph_.nodes.size() - 1; ++i) add(graph_.nodes[i]);
    node("Flatten", "logits", {values_[logits].name}, {{"axis", std::int64_t{1}}});
    return std::move(model_);
  }

 private:
  // `flat`: (N, C), where a node of the graph has (N, C, 1, 1).
  struct Value {
    std::string name;
    bool flat = false;
  };

  void add(const graph::Node& from) {
    Value x = values_[static_cast<std::size_t>(from.inputs.front())];
    switch (from.op) {
      case graph::Op::kConv2d:
        return conv(from, image(x, from));
      case graph::Op::kDense:
        return dense(from, columns(x, from));
      case graph::Op::kBatchNorm:
        return batch_norm(from, x);
      case graph::Op::kRelu:
        return give(from, "Relu", x);
      case graph::Op::kTanh:
        return give(from, "Tanh", x);
      case graph::Op::kGelu:
        return gelu(from, x);
      case graph::Op::kSigmoid:
        return give(from, "Sigmoid", x);
      case graph::Op::kSilu:
        return silu(from, x);
      case graph::Op::kHardSwish:
        return give(from, "HardSwish", x);
      case graph::Op::kHardSigmoid:
        return give(from, "HardSigmoid", x, {{"alpha", 1.0F / 6}, {"beta", 0.5F}});
      case graph::Op::kClip:
        return clip(from, x);
      case graph::Op::kConcat:
        return concat(from);
      case graph::Op::kAdd:
        return both(from, "Add");
      case graph::Op::kMultiply:
        return both(from, "Mul");
      case graph::Op::kMaxPool:
        return give(from, "MaxPool", image(x, from), window(from));
      case graph::Op::kAvgPool: {
        std::vector<Attribute> attributes = window(from);
        attributes.push_back({"count_include_pad", std::int64_t{from.counts_padding ? 1 : 0}});
        return give(from, "AveragePool", image(x, from), std::move(attributes));
      }
      case graph::Op::kGlobalAvgPool:
        return give(from, "GlobalAveragePool", image(x, from));
      case graph::Op::kFlatten:
        node("Flatten", from.name, {x.name}, {{"axis", std::int64_t{1}}});
        values_.push_back({from.name, true});
        return;
      case graph::Op::kDropout:
        return dropout(from, x);
      default:
        break;
    }
    throw Error(ExitCode::kBadInput,
                fmt::format("[model] layer {}: has no form in ONNX here", from.name));
  }

  void node(std::string op, const std::string& name, std::vector<std::string> inputs,
            std::vector<Attribute> attributes = {}) {
    if (!names_.insert(name).second)
      refuse(model_, fmt::format("two layers would have the name {} in ONNX", name));
    model_.nodes.push_back({.op = std::move(op),
                            .name = name,
                            .inputs = std::move(inputs),
                            .outputs = {name},
                            .attributes = std::move(attributes)});
  }

  void give(const graph::Node& from, std::string op, const Value& x,
            std::vector<Attribute> attributes = {}) {
    node(std::move(op), from.name, {x.name}, std::move(attributes));
    values_.push_back({from.name, x.flat});
  }

  Value columns(const Value& x, const graph::Node& reader) {
    if (x.flat) return x;
    const std::string name = reader.name + ".flat";
    node("Flatten", name, {x.name}, {{"axis", std::int64_t{1}}});
    return {name, true};
  }

  Value image(const Value& x, const graph::Node& reader, const std::string& number = "") {
    if (!x.flat) return x;
    const std::string name = reader.name + ".image" + number;
    model_.tensors.push_back(
        {.name = name + ".axes", .dims = {2}, .type = ElementType::kInt64, .integers = {2, 3}});
    node("Unsqueeze", name, {x.name, name + ".axes"});
    return {name, false};
  }

  static std::vector<Attribute> window(const graph::Node& from) {
    using List = std::vector<std::int64_t>;
    return {{"kernel_shape", List{from.kernel, from.kernel}},
            {"strides", List{from.stride, from.stride}},
            {"pads", List{from.pad, from.pad, from.pad_after(), from.pad_after()}}};
  }

  // A parameter as a tensor of the model, and its name.
  std::string weight(const std::string& name) {
    const auto found = weights_.find(name);
    if (found == weights_.end() || found->second->dims != dims_.at(name))
      refuse(model_, fmt::format("its weights hold no tensor {} of ({})", name,
                                 fmt::join(dims_.at(name), ", ")));
    model_.tensors.push_back(
        {.name = name, .dims = found->second->dims, .floats = found->second->values});
    return name;
  }

  std::string scalar(const std::string& name, double value) {
    model_.tensors.push_back({.name = name, .dims = {}, .floats = {static_cast<float>(value)}});
    return name;
  }

  std::vector<std::string> with_weights(const graph::Node& from, const Value& x) {
    std::vector<std::string> inputs{x.name, weight(from.name + ".weight")};
    if (from.bias) inputs.push_back(weight(from.name + ".bias"));
    return inputs;
  }

  void conv(const graph::Node& from, const Value& x) {
    std::vector<Attribute> attributes = window(from);
    attributes.push_back({"group", std::int64_t{from.groups}});
    node("Conv", from.name, with_weights(from, x), std::move(attributes));
    values_.push_back({from.name, false});
  }

  void dense(const graph::Node& from, const Value& x) {
    node("Gemm", from.name, with_weights(from, x), {{"transB", std::int64_t{1}}});
    values_.push_back({from.name, true});
  }

  void batch_norm(const graph::Node& from, const Value& x) {
    const auto channels = static_cast<std::size_t>(from.shape.c);
    const std::string gamma = from.name + ".weight";
    if (from.fixed_gamma)
      model_.tensors.push_back(
          {.name = gamma, .dims = {from.shape.c}, .floats = std::vector<float>(channels, 1.0F)});
    else
      weight(gamma);
    node("BatchNormalization", from.name,
         {x.name, gamma, weight(from.name + ".bias"), weight(from.name + ".running_mean"),
          weight(from.name + ".running_var")},
         {{"epsilon", from.epsilon}});
    values_.push_back({from.name, x.flat});
  }

  // As opsets before 20 have it.
  void gelu(const graph::Node& from, const Value& x) {
    const std::string& name = from.name;
    node("Div", name + ".scaled", {x.name, scalar(name + ".root", std::numbers::sqrt2)});
    node("Erf", name + ".erf", {name + ".scaled"});
    node("Add", name + ".sum", {name + ".erf", scalar(name + ".one", 1)});
    node("Mul", name + ".twice", {x.name, name + ".sum"});
    node("Mul", name, {name + ".twice", scalar(name + ".half", 0.5)});
    values_.push_back({name, x.flat});
  }

  void silu(const graph::Node& from, const Value& x) {
    node("Sigmoid", from.name + ".sigmoid", {x.name});
    node("Mul", from.name, {x.name, from.name + ".sigmoid"});
    values_.push_back({from.name, x.flat});
  }

  void clip(const graph::Node& from, const Value& x) {
    node("Clip", from.name,
         {x.name, scalar(from.name + ".low", from.low), scalar(from.name + ".high", from.high)});
    values_.push_back({from.name, x.flat});
  }

  void concat(const graph::Node& from) {
    std::vector<std::string> inputs;
    const auto value_of = [&](int input) { return values_[static_cast<std::size_t>(input)]; };
    const bool flat = std::ranges::all_of(from.inputs, [&](int i) { return value_of(i).flat; });
    for (std::size_t i = 0; i < from.inputs.size(); ++i) {
      const Value x = value_of(from.inputs[i]);
      inputs.push_back(x.flat == flat ? x.name : image(x, from, fmt::format("{}", i)).name);
    }
    node("Concat", from.name, std::move(inputs), {{"axis", std::int64_t{1}}});
    values_.push_back({from.name, flat});
  }

  void both(const graph::Node& from, std::string op) {
    Value a = values_[static_cast<std::size_t>(from.inputs[0])];
    Value b = values_[static_cast<std::size_t>(from.inputs[1])];
    if (a.flat && !b.flat) a = image(a, from);
    if (b.flat && !a.flat) b = image(b, from);
    node(std::move(op), from.name, {a.name, b.name});
    values_.push_back({from.name, a.flat});
  }

  void dropout(const graph::Node& from, const Value& x) {
    node("Dropout", from.name, {x.name, scalar(from.name + ".ratio", from.rate)});
    values_.push_back({from.name, x.flat});
  }

  const graph::Graph& graph_;
  std::map<std::string, const checkpoint::NamedTensor*> weights_;
  std::map<std::string, std::vector<std::int64_t>> dims_;  // of parameters
  std::set<std::string> names_{"input"};
  std::vector<Value> values_;  // of the graph's nodes
  Model model_;
};

}  // namespace

Model to_model(const graph::Graph& graph, const std::vector<checkpoint::NamedTensor>& weights) {
  const graph::Graph shaped = graph::infer_shapes(graph, 1);
  return Writer(shaped, weights).run();
}

}  // namespace coxswain::onnx
