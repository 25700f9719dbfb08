#include "trainer/backend/cuda/cudnn_convolutions.h"

#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <unordered_map>
#include <vector>

#include "trainer/contract/error.h"

namespace coxswain::backend::cuda {

namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;
using TensorPointer = std::shared_ptr<Tensor_attributes>;
using Dims = std::vector<std::int64_t>;

// Value. A graph, and the tensors whose addresses a run gives it.
struct Plan {
  fe::graph::Graph graph;
  TensorPointer x, w, y, bias;
};

std::string words_of(Pass pass) {
  if (pass == Pass::kForward) return "forward";
  return pass == Pass::kData ? "its input's gradient" : "its weights' gradient";
}

std::string text_of(const Convolution& d) {
  return fmt::format("a convolution of {} to {} with kernel {}, stride {}, pad {} ({}{}{})",
                     tensor::to_text(d.x), tensor::to_text(d.y), d.kernel, d.stride, d.pad,
                     words_of(d.pass), d.bias ? ", bias" : "", d.relu ? ", relu" : "");
}

// Logically (N, C, H, W); the channels lie together.
Dims strides_of(const Dims& dims) {
  return {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]};
}

Dims dims_of(const tensor::Shape& s) { return {s.n, s.c, s.h, s.w}; }
Dims weight_dims(const Convolution& d) { return {d.y.c, d.x.c, d.kernel, d.kernel}; }

TensorPointer input(Plan& plan, const char* name, const Dims& dims) {
  return plan.graph.tensor(
      Tensor_attributes().set_name(name).set_dim(dims).set_stride(strides_of(dims)));
}

void output(const TensorPointer& tensor, const Dims& dims) {
  tensor->set_output(true)
      .set_dim(dims)
      .set_stride(strides_of(dims))
      .set_data_type(fe::DataType_t::FLOAT);
}

template <class Attributes>
Attributes window(const Convolution& d) {
  const Dims pad{d.pad, d.pad};
  return Attributes().set_padding(pad).set_stride({d.stride, d.stride}).set_dilation({1, 1});
}

void describe_forward(Plan& plan, const Convolution& d) {
  plan.x = input(plan, "x", dims_of(d.x));
  plan.w = input(plan, "w", weight_dims(d));
  plan.y = plan.graph.conv_fprop(plan.x, plan.w, window<fe::graph::Conv_fprop_attributes>(d));
  if (d.bias) {
    plan.bias = input(plan, "bias", {1, d.y.c, 1, 1});
    plan.y = plan.graph.pointwise(
        plan.y, plan.bias, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  }
  if (d.relu) {
    plan.y = plan.graph.pointwise(
        plan.y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
  }
  output(plan.y, dims_of(d.y));
}

void describe(Plan& plan, const Convolution& d) {
  plan.graph.set_io_data_type(fe::DataType_t::FLOAT)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (d.pass == Pass::kForward) return describe_forward(plan, d);
  plan.y = input(plan, "dy", dims_of(d.y));
  if (d.pass == Pass::kData) {
    plan.w = input(plan, "w", weight_dims(d));
    plan.x = plan.graph.conv_dgrad(plan.y, plan.w, window<fe::graph::Conv_dgrad_attributes>(d));
    return output(plan.x, dims_of(d.x));
  }
  plan.x = input(plan, "x", dims_of(d.x));
  plan.w = plan.graph.conv_wgrad(plan.y, plan.x, window<fe::graph::Conv_wgrad_attributes>(d));
  output(plan.w, weight_dims(d));
}

// Empty, or why there is no plan.
std::string build(Plan& plan, cudnnHandle_t handle) {
  fe::graph::Graph& graph = plan.graph;
  auto result = graph.validate();
  if (result.is_good()) result = graph.build_operation_graph(handle);
  if (result.is_good())
    result = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  if (!result.is_good()) return result.get_message();
  // In float32 the tensor cores compute in TF32.
  graph.deselect_numeric_notes(
      {fe::NumericalNote_t::NONDETERMINISTIC, fe::NumericalNote_t::TENSOR_CORE,
       fe::NumericalNote_t::DOWN_CONVERT_INPUTS, fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION,
       fe::NumericalNote_t::WINOGRAD, fe::NumericalNote_t::FFT});
  result = graph.check_support(handle);
  if (result.is_good())
    result = graph.build_plans(handle, fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
  return result.is_good() ? "" : result.get_message();
}

Product to_product(std::shared_ptr<Plan> plan, cudnnHandle_t handle, const Convolution& d) {
  const auto workspace = static_cast<std::size_t>(plan->graph.get_workspace_size());
  return {workspace, [plan, handle, d](const Operands& o, void* scratch, const Queue& queue) {
            std::unordered_map<TensorPointer, void*> pack{
                {plan->x, o.x}, {plan->w, o.w}, {plan->y, o.y}};
            if (plan->bias) pack[plan->bias] = const_cast<float*>(o.bias);
            cudnnSetStream(handle, queue.stream);
            auto result = plan->graph.execute(handle, pack, scratch);
            if (result.is_good()) return;
            throw Error(ExitCode::kInternal,
                        fmt::format("[cuda] {} failed: {}", text_of(d), result.get_message()));
          }};
}

}  // namespace

struct CudnnConvolutions::Handle {
  cudnnHandle_t handle = nullptr;
  ~Handle() { cudnnDestroy(handle); }
};

CudnnConvolutions::CudnnConvolutions() : handle_(std::make_unique<Handle>()) {
  const cudnnStatus_t status = cudnnCreate(&handle_->handle);
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw Error(ExitCode::kInternal,
              fmt::format("[cuda] cuDNN does not start: {}", cudnnGetErrorString(status)));
}

CudnnConvolutions::~CudnnConvolutions() = default;

// Where no engine adds bias and activation by itself, a kernel of ours does.
Product CudnnConvolutions::prepare(const Convolution& d) {
  const cudnnHandle_t handle = handle_->handle;
  auto plan = std::make_shared<Plan>();
  describe(*plan, d);
  if (build(*plan, handle).empty()) return to_product(std::move(plan), handle, d);
  Convolution alone = d;
  alone.bias = alone.relu = false;
  plan = std::make_shared<Plan>();
  describe(*plan, alone);
  const std::string refusal = build(*plan, handle);
  if (!refusal.empty()) {
    throw Error(ExitCode::kInternal,
                fmt::format("[cuda] cuDNN has no kernel for {}: {}", text_of(d), refusal));
  }
  const Product product = to_product(std::move(plan), handle, alone);
  if (!d.bias && !d.relu) return product;
  return {product.workspace, [product, d](const Operands& o, void* scratch, const Queue& queue) {
            product.run(o, scratch, queue);
            add_bias(queue, o.y, o.bias, d.relu ? Activation::kRelu : Activation::kNone,
                     d.y.n * d.y.h * d.y.w, d.y.c);
          }};
}

std::string CudnnConvolutions::version() const {
  const std::size_t version = cudnnGetVersion();
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace coxswain::backend::cuda
