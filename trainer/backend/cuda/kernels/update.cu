#include "trainer/backend/control.h"
#include "trainer/backend/cuda/kernels/flat_buffer.h"
#include "trainer/backend/cuda/kernels/row_sums.h"
#include "trainer/optim/formulas.h"

namespace coxswain::backend::cuda {

namespace {

// All who find something write the same.
__global__ void find_not_finite_kernel(const float* gradients, std::int64_t size,
                                       Verdict* verdict) {
  float sum = 0;  // a finite times zero is zero; infinities and NaN give NaN, which stays
  for (std::int64_t i = loop_start(); i < size; i += loop_stride()) sum += gradients[i] * 0.0F;
  if (sum != 0) verdict->not_finite = 1;
}

// The flat buffer as rows of kColumns floats, of which the last may reach beyond it.
struct Squares {
  static constexpr int kSums = 1;
  const float* gradients;
  const Change* changes;
  std::int64_t size;
  __device__ double operator()(std::int64_t i, std::int64_t, int) const {
    if (i >= size) return 0;
    if (!is_trained(changes[i / kGranule])) return 0;
    return static_cast<double>(gradients[i]) * static_cast<double>(gradients[i]);
  }
};

std::int64_t rows_of(std::int64_t size) { return (size + kColumns - 1) / kColumns; }

__global__ void finish_squares_kernel(const double* partial, Chunks chunks, Verdict* verdict) {
  double sum = sum_of_chunks(partial, kColumns, chunks, threadIdx.x, 0);
  sum_columns(&sum, 1);
  if (threadIdx.x == 0) verdict->squares = sum;
}

__global__ void decide_kernel(const UpdateInputs* inputs, float clip_norm, float* control_sums,
                              float* control_weights, Verdict* verdict) {
  const bool updates = control_sums[kNotFinite] == 0 && verdict->not_finite == 0;
  verdict->not_finite = 0;
  verdict->updates = updates ? 1 : 0;
  control_sums[kUpdated] = updates ? 1.0F : 0.0F;
  if (!updates) return;
  auto* count = reinterpret_cast<std::int64_t*>(control_weights);
  ++*count;
  verdict->step = {inputs->lr, inputs->momentum, *count, inputs->statistic_parts,
                   optim::clip_factor(clip_norm, verdict->squares)};
}

template <class Formula>
__global__ void update_kernel(optim::UpdateRule rule, const Verdict* verdict, FlatBuffer buffer) {
  if (verdict->updates == 0) return;
  Formula formula(rule, optim::elementwise_step(rule, verdict->step));
  const float parts = verdict->step.statistic_parts;
  for (std::int64_t i = loop_start(); i < buffer.size; i += loop_stride()) {
    const Change change = buffer.changes[i / kGranule];
    if (change == Change::kNothing || change == Change::kMatrix) continue;
    float weight = buffer.weights[i];
    if (change == Change::kStatistic) {
      buffer.weights[i] =
          optim::averaged(weight, buffer.gradients[i], rule.statistic_momentum, parts);
    } else {
      if constexpr (requires { formula.lr; }) {
        if (buffer.rates != nullptr) formula.lr = rate_of(buffer, i);
      }
      const float gradient =
          optim::decayed(formula, optim::clipped(rule, verdict->step, buffer.gradients[i]),
                         decay_of(rule, change), weight);
      if constexpr (std::is_invocable_v<Formula, float, float&>) {
        formula(gradient, weight);
      } else if constexpr (std::is_invocable_v<Formula, float, float&, float&>) {
        formula(gradient, weight, buffer.slots[0][i]);
      } else if constexpr (std::is_invocable_v<Formula, float, float&, float&, float&>) {
        formula(gradient, weight, buffer.slots[0][i], buffer.slots[1][i]);
      } else {
        formula(gradient, weight, buffer.slots[0][i], buffer.slots[1][i], buffer.slots[2][i]);
      }
      store_weight(rule, buffer, i, weight);
    }
  }
}

}  // namespace

void find_not_finite(const Queue& queue, const float* gradients, std::int64_t size,
                     Verdict* verdict) {
  const cudaLaunchConfig_t config = loop_over(queue, size);
  check(cudaLaunchKernelEx(&config, find_not_finite_kernel, gradients, size, verdict),
        "starting the kernel find_not_finite");
}

std::int64_t partial_squares(std::int64_t size) { return partial_sums(rows_of(size), kColumns); }

void sum_squares(const Queue& queue, const FlatBuffer& buffer, double* partial, Verdict* verdict) {
  const std::int64_t rows = rows_of(buffer.size);
  start_partial_sums(queue, Squares{buffer.gradients, buffer.changes, buffer.size}, rows, kColumns,
                     partial);
  const cudaLaunchConfig_t one = grid(queue, dim3{1, 1, 1}, dim3{kColumns, 1, 1});
  check(cudaLaunchKernelEx(&one, finish_squares_kernel, partial, chunks_of(rows), verdict),
        "starting the kernel finish_squares");
}

void decide(const Queue& queue, const UpdateInputs* inputs, float clip_norm, float* control_sums,
            float* control_weights, Verdict* verdict) {
  const cudaLaunchConfig_t one = grid(queue, dim3{1, 1, 1}, dim3{1, 1, 1});
  check(cudaLaunchKernelEx(&one, decide_kernel, inputs, clip_norm, control_sums, control_weights,
                           verdict),
        "starting the kernel decide");
}

void update(const Queue& queue, const optim::UpdateRule& rule, const Verdict* verdict,
            const FlatBuffer& buffer) {
  const cudaLaunchConfig_t config = loop_over(queue, buffer.size);
  int slots = 0;
  for (const float* slot : buffer.slots) slots += slot != nullptr ? 1 : 0;
  optim::with_formula(rule, slots, [&]<class Formula>(std::type_identity<Formula>) {
    check(cudaLaunchKernelEx(&config, update_kernel<Formula>, rule, verdict, buffer),
          "starting the kernel update");
  });
}

}  // namespace coxswain::backend::cuda
