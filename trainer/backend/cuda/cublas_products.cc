#include "trainer/backend/cuda/cublas_products.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include "trainer/contract/error.h"

namespace coxswain::backend::cuda {

namespace {

constexpr std::size_t kMostWorkspace = std::size_t{32} << 20;  // what NVIDIA advises for Hopper

void check(cublasStatus_t status, const Dense& d) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ExitCode::kInternal,
              fmt::format("[cuda] cuBLASLt has no product for a dense layer of {} rows, {} in, {} "
                          "out: {}",
                          d.rows, d.in, d.out, cublasLtGetStatusString(status)));
}

// Value. A product as cuBLASLt sees it: matrices by columns, so that each of ours is transposed.
// result (m, n) = left (m, k) * right (k, n).
struct Plan {
  cublasLtMatmulDescOpaque_t product = {};
  cublasLtMatrixLayoutOpaque_t left = {};
  cublasLtMatrixLayoutOpaque_t right = {};
  cublasLtMatrixLayoutOpaque_t result = {};
  cublasLtMatmulAlgo_t algorithm = {};
  std::size_t workspace = 0;
};

template <typename T>
void set(Plan& plan, cublasLtMatmulDescAttributes_t attribute, const T& value, const Dense& d) {
  check(cublasLtMatmulDescSetAttribute(&plan.product, attribute, &value, sizeof(value)), d);
}

cudaDataType to_cuda(tensor::DataType type) {
  if (type == tensor::DataType::kBFloat16) return CUDA_R_16BF;
  return type == tensor::DataType::kFloat16 ? CUDA_R_16F : CUDA_R_32F;
}

void lay_out(cublasLtMatrixLayoutOpaque_t& layout, tensor::DataType type, std::int64_t rows,
             std::int64_t columns, const Dense& d) {
  check(cublasLtMatrixLayoutInit(&layout, to_cuda(type), static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(columns), rows),
        d);
}

cublasLtEpilogue_t epilogue_of(const Dense& d) {
  if (d.bias) return d.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  return d.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

// kForward: y' (out, rows) = w (in, out)' * x' (in, rows)
// kData: d_x' (in, rows) = w' (in, out) * d_y' (out, rows)
// kWeights: d_w' (in, out) = x' (in, rows) * d_y' (out, rows)'
Plan describe(const Dense& d) {
  Plan plan;
  check(cublasLtMatmulDescInit(&plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F), d);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const tensor::DataType type = d.types.x;
  if (d.pass == Pass::kForward) {
    lay_out(plan.left, type, d.in, d.out, d);
    lay_out(plan.right, type, d.in, d.rows, d);
    lay_out(plan.result, d.types.y, d.out, d.rows, d);
    set(plan, CUBLASLT_MATMUL_DESC_TRANSA, transposed, d);
  } else if (d.pass == Pass::kData) {
    lay_out(plan.left, type, d.in, d.out, d);
    lay_out(plan.right, type, d.out, d.rows, d);
    lay_out(plan.result, type, d.in, d.rows, d);
  } else {
    lay_out(plan.left, type, d.in, d.rows, d);
    lay_out(plan.right, type, d.out, d.rows, d);
    lay_out(plan.result, d.types.d_w, d.in, d.out, d);
    set(plan, CUBLASLT_MATMUL_DESC_TRANSB, transposed, d);
  }
  set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(d), d);
  if (d.bias) set(plan, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, to_cuda(d.types.bias), d);
  return plan;
}

template <typename T>
void prefer(cublasLtMatmulPreferenceOpaque_t& preference,
            cublasLtMatmulPreferenceAttributes_t attribute, const T& value, const Dense& d) {
  check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)), d);
}

// The heuristics' first. Sums of parts go through the workspace, in a fixed order.
void choose(Plan& plan, cublasLtHandle_t handle, const Dense& d) {
  cublasLtMatmulPreferenceOpaque_t preference = {};
  check(cublasLtMatmulPreferenceInit(&preference), d);
  const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace, d);
  prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes, d);
  // Segments and buffers begin at 64 bytes, rows at any element.
  const std::uint32_t alignment = 64;
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment, d);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment, d);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment, d);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment, d);
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle, &plan.product, &plan.left, &plan.right, &plan.result,
                                       &plan.result, &preference, 1, &result, &found),
        d);
  if (found == 0) check(CUBLAS_STATUS_NOT_SUPPORTED, d);
  plan.algorithm = result.algo;
  plan.workspace = result.workspaceSize;
}

void run(Plan& plan, cublasLtHandle_t handle, const Dense& d, const Operands& o, void* workspace,
         cudaStream_t stream) {
  const float one = 1;
  const float zero = 0;
  const void* left = d.pass == Pass::kWeights ? o.x : o.w;
  const void* right = d.pass == Pass::kForward ? o.x : o.y;
  void* result = o.y;
  if (d.pass == Pass::kData) result = o.x;
  if (d.pass == Pass::kWeights) result = o.w;
  if (d.bias) set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias, d);
  check(cublasLtMatmul(handle, &plan.product, &one, left, &plan.left, right, &plan.right, &zero,
                       result, &plan.result, result, &plan.result, &plan.algorithm, workspace,
                       plan.workspace, stream),
        d);
}

}  // namespace

struct CublasProducts::Handle {
  cublasLtHandle_t handle = nullptr;
  ~Handle() { cublasLtDestroy(handle); }
};

CublasProducts::CublasProducts() : handle_(std::make_unique<Handle>()) {
  const cublasStatus_t status = cublasLtCreate(&handle_->handle);
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ExitCode::kInternal,
              fmt::format("[cuda] cuBLASLt does not start: {}", cublasLtGetStatusString(status)));
}

CublasProducts::~CublasProducts() = default;

Product CublasProducts::prepare(const Dense& d) {
  auto plan = std::make_shared<Plan>(describe(d));
  choose(*plan, handle_->handle, d);
  return {plan->workspace, [plan, handle = handle_->handle, d](
                               const Operands& operands, void* workspace, const Queue& queue) {
            run(*plan, handle, d, operands, workspace, queue.stream);
          }};
}

std::string CublasProducts::version() const {
  return fmt::format("cuBLASLt {}", cublasLtGetVersion());
}

}  // namespace coxswain::backend::cuda
