#include "trainer/backend/cuda/cudnn_convolutions.h"

#include <cudnn.h>
#include <fmt/format.h>

#include "trainer/backend/cuda/cudnn_plan.h"
#include "trainer/contract/error.h"

namespace coxswain::backend::cuda {

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

std::shared_ptr<CudnnPlan> CudnnConvolutions::plan(const Convolution& d, const std::string& engine,
                                                   std::string& refusal) {
  auto plan = std::make_shared<CudnnPlan>(d);
  refusal = plan->build({handle_->handle}, engine);
  if (refusal.empty() || (!d.bias && !d.relu)) return plan;
  Convolution alone = d;
  alone.bias = alone.relu = false;
  plan = std::make_shared<CudnnPlan>(alone);
  refusal = plan->build({handle_->handle}, engine);
  return plan;
}

// Where no engine adds bias and activation by itself, a kernel of ours does, which wants the bias
// wide.
Product CudnnConvolutions::to_product(std::shared_ptr<CudnnPlan> plan, const Convolution& d) {
  const bool is_whole = plan->convolution() == d;
  const Product product{plan->workspace(),
                        [plan = std::move(plan), handle = handle_->handle](
                            const Operands& operands, void* scratch, const Queue& queue) {
                          plan->run(handle, operands, scratch, queue);
                        }};
  if (is_whole) return product;
  constexpr std::size_t kAlign = 256;
  const std::size_t used = (product.workspace + kAlign - 1) / kAlign * kAlign;
  const std::size_t workspace = used + static_cast<std::size_t>(d.y.c) * sizeof(float);
  return {workspace, [product, d, used](const Operands& o, void* scratch, const Queue& queue) {
            product.run(o, scratch, queue);
            const bool narrow = d.bias && d.types.bias != tensor::DataType::kFloat32;
            const Array wide{static_cast<std::byte*>(scratch) + used};
            if (narrow) convert(queue, {const_cast<void*>(o.bias), d.types.bias}, wide, d.y.c);
            add_bias(queue, {o.y, d.types.y},
                     narrow ? wide.as<const float>() : static_cast<const float*>(o.bias),
                     d.relu ? Activation::kRelu : Activation::kNone, d.y.n * d.y.h * d.y.w, d.y.c);
          }};
}

Product CudnnConvolutions::prepare(const Convolution& d) {
  std::string refusal;
  const auto made = plan(d, "", refusal);
  if (refusal.empty()) return to_product(made, d);
  throw Error(ExitCode::kInternal,
              fmt::format("[cuda] cuDNN has no kernel for {}: {}", to_text(d), refusal));
}

std::optional<Product> CudnnConvolutions::prepare_with(const std::string& engine,
                                                       const Convolution& d) {
  std::string refusal;
  const auto made = plan(d, engine, refusal);
  if (!refusal.empty()) return std::nullopt;
  return to_product(made, d);
}

std::vector<std::string> CudnnConvolutions::engines(const Convolution& d) {
  std::string refusal;
  return plan(d, "", refusal)->engines();
}

std::string CudnnConvolutions::version() const {
  const std::size_t version = cudnnGetVersion();
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace coxswain::backend::cuda
