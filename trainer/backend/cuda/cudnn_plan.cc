#include "trainer/backend/cuda/cudnn_plan.h"

#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "trainer/contract/error.h"

namespace coxswain::backend::cuda {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;
using Tensor = std::shared_ptr<Tensor_attributes>;
using Dims = std::vector<std::int64_t>;

// And the tensors whose addresses a run gives it.
struct CudnnPlan::Graph {
  fe::graph::Graph graph;
  Tensor x, w, y, bias;
};

namespace {

using Plan = CudnnPlan::Graph;

std::string words_of(Pass pass) {
  if (pass == Pass::kForward) return "forward";
  return pass == Pass::kData ? "its input's gradient" : "its weights' gradient";
}

// Logically (N, C, H, W); the channels lie together.
Dims strides_of(const Dims& dims) {
  return {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]};
}

Dims dims_of(const tensor::Shape& s) { return {s.n, s.c, s.h, s.w}; }
Dims weight_dims(const Convolution& d) { return {d.y.c, d.x.c / d.groups, d.kernel, d.kernel}; }

fe::DataType_t to_cudnn(tensor::DataType type) {
  if (type == tensor::DataType::kBFloat16) return fe::DataType_t::BFLOAT16;
  return type == tensor::DataType::kFloat16 ? fe::DataType_t::HALF : fe::DataType_t::FLOAT;
}

Tensor input(Plan& plan, const char* name, const Dims& dims, tensor::DataType type) {
  return plan.graph.tensor(Tensor_attributes()
                               .set_name(name)
                               .set_dim(dims)
                               .set_stride(strides_of(dims))
                               .set_data_type(to_cudnn(type)));
}

void output(const Tensor& tensor, const Dims& dims, tensor::DataType type) {
  tensor->set_output(true).set_dim(dims).set_stride(strides_of(dims)).set_data_type(to_cudnn(type));
}

template <class Attributes>
Attributes window(const Convolution& d) {
  return Attributes()
      .set_pre_padding({d.pad, d.pad})
      .set_post_padding({d.pad_after, d.pad_after})
      .set_stride({d.stride, d.stride})
      .set_dilation({1, 1});
}

void describe_forward(Plan& plan, const Convolution& d) {
  plan.x = input(plan, "x", dims_of(d.x), d.types.x);
  plan.w = input(plan, "w", weight_dims(d), d.types.x);
  plan.y = plan.graph.conv_fprop(plan.x, plan.w, window<fe::graph::Conv_fprop_attributes>(d));
  if (d.bias) {
    plan.bias = input(plan, "bias", {1, d.y.c, 1, 1}, d.types.bias);
    plan.y = plan.graph.pointwise(
        plan.y, plan.bias, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  }
  if (d.relu) {
    plan.y = plan.graph.pointwise(
        plan.y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
  }
  output(plan.y, dims_of(d.y), d.types.y);
}

void describe(Plan& plan, const Convolution& d) {
  plan.graph.set_io_data_type(fe::DataType_t::FLOAT)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (d.pass == Pass::kForward) return describe_forward(plan, d);
  plan.y = input(plan, "dy", dims_of(d.y), d.types.x);
  if (d.pass == Pass::kData) {
    plan.w = input(plan, "w", weight_dims(d), d.types.x);
    plan.x = plan.graph.conv_dgrad(plan.y, plan.w, window<fe::graph::Conv_dgrad_attributes>(d));
    return output(plan.x, dims_of(d.x), d.types.x);
  }
  plan.x = input(plan, "x", dims_of(d.x), d.types.x);
  plan.w = plan.graph.conv_wgrad(plan.y, plan.x, window<fe::graph::Conv_wgrad_attributes>(d));
  output(plan.w, weight_dims(d), d.types.d_w);
}

fe::error_t plan_for(fe::graph::Graph& graph, const CudnnDevice& described) {
  const auto device = std::make_shared<fe::DeviceProperties>();
  const fe::error_t result =
      device->deserialize({described.properties.begin(), described.properties.end()});
  if (result.is_good()) graph.set_device_properties(device).set_sm_version(described.capability);
  return result;
}

// By index; as text that says an engine and its settings. Empty: it has none.
std::vector<std::string> names_of(const fe::graph::Graph& graph) {
  std::vector<std::string> names(static_cast<std::size_t>(graph.get_execution_plan_count()));
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (graph.get_plan_name_at_index(static_cast<std::int64_t>(i), names[i]).is_bad()) break;
  }
  return names;
}

std::string build_named(fe::graph::Graph& graph, const std::string& engine) {
  const std::vector<std::string> names = names_of(graph);
  const auto found = std::ranges::find(names, engine);
  if (found == names.end()) return "no engine is called " + engine;
  fe::error_t result = graph.build_plan_at_index(found - names.begin());
  return result.is_good() ? "" : result.get_message();
}

}  // namespace

CudnnPlan::CudnnPlan(const Convolution& convolution)
    : convolution_(convolution), graph_(std::make_unique<Graph>()) {
  describe(*graph_, convolution);
}

CudnnPlan::~CudnnPlan() = default;

std::string CudnnPlan::build(const CudnnDevice& device, const std::string& engine) {
  fe::graph::Graph& graph = graph_->graph;
  fe::error_t result = graph.validate();
  if (result.is_good() && !device.handle) result = plan_for(graph, device);
  if (result.is_good()) result = graph.build_operation_graph(device.handle);
  if (result.is_good())
    result = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  if (!result.is_good()) return result.get_message();
  std::vector<fe::NumericalNote_t> unwanted{
      fe::NumericalNote_t::DOWN_CONVERT_INPUTS, fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION,
      fe::NumericalNote_t::WINOGRAD, fe::NumericalNote_t::FFT};
  if (engine.empty()) unwanted.push_back(fe::NumericalNote_t::NONDETERMINISTIC);
  // Of float32 the tensor cores make TF32.
  if (convolution_.types.x == tensor::DataType::kFloat32)
    unwanted.push_back(fe::NumericalNote_t::TENSOR_CORE);
  graph.deselect_numeric_notes(unwanted);
  if (!engine.empty()) return build_named(graph, engine);
  result = graph.check_support();
  if (result.is_good()) result = graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
  return result.is_good() ? "" : result.get_message();
}

std::vector<std::string> CudnnPlan::engines() const {
  std::string own;
  if (graph_->graph.get_plan_name(own).is_bad()) return {};
  std::vector<std::string> names{own};
  for (const std::string& name : names_of(graph_->graph))
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

std::size_t CudnnPlan::workspace() const {
  return static_cast<std::size_t>(graph_->graph.get_workspace_size());
}

void CudnnPlan::run(cudnnHandle_t handle, const Operands& o, void* workspace,
                    const Queue& queue) const {
  std::unordered_map<Tensor, void*> pack{{graph_->x, o.x}, {graph_->w, o.w}, {graph_->y, o.y}};
  if (graph_->bias) pack[graph_->bias] = const_cast<void*>(o.bias);
  cudnnSetStream(handle, queue.stream);
  fe::error_t result = graph_->graph.execute(handle, pack, workspace);
  if (result.is_good()) return;
  throw Error(ExitCode::kInternal,
              fmt::format("[cuda] {} failed: {}", to_text(convolution_), result.get_message()));
}

std::string to_text(const Convolution& d) {
  return fmt::format(
      "a convolution of {} {} to {} with kernel {}, stride {}, pad {} and {}{} "
      "({}{}{})",
      name_of(d.types.x), tensor::to_text(d.x), tensor::to_text(d.y), d.kernel, d.stride, d.pad,
      d.pad_after, d.groups == 1 ? "" : fmt::format(", groups {}", d.groups), words_of(d.pass),
      d.bias ? ", bias" : "", d.relu ? ", relu" : "");
}

}  // namespace coxswain::backend::cuda
