#include "trainer/backend/control.h"
#include "trainer/backend/cuda/kernels/launch.h"

namespace coxswain::backend::cuda {

namespace {

constexpr unsigned int kWarp = 32;
constexpr unsigned int kAllLanes = 0xFFFFFFFFU;

__device__ double sum_of_warp(double value) {
  for (unsigned int with = kWarp / 2; with > 0; with /= 2)
    value += __shfl_xor_sync(kAllLanes, value, static_cast<int>(with));
  return value;
}

__device__ double greatest_of_warp(double value) {
  for (unsigned int with = kWarp / 2; with > 0; with /= 2) {
    const double other = __shfl_xor_sync(kAllLanes, value, static_cast<int>(with));
    value = value < other ? other : value;
  }
  return value;
}

// A warp a row.
__device__ std::int64_t row_of_warp() { return loop_start() / kWarp; }
__device__ std::int64_t lane_of_warp() { return threadIdx.x % kWarp; }

struct Normaliser {
  double maximum = 0;
  double sum = 0;  // of exp(logit - maximum)
};

// A NaN never is the greatest, but is in the sum.
__device__ Normaliser normaliser(const float* row, std::int64_t classes) {
  double maximum = row[0];
  for (std::int64_t c = lane_of_warp(); c < classes; c += kWarp)
    maximum = maximum < row[c] ? row[c] : maximum;
  maximum = greatest_of_warp(maximum);
  double sum = 0;
  for (std::int64_t c = lane_of_warp(); c < classes; c += kWarp) sum += exp(row[c] - maximum);
  return {maximum, sum_of_warp(sum)};
}

// Classes that come before the label's: a greater logit, or an equal one of a lower index. A NaN
// counts against the row.
__device__ double classes_before(const float* row, std::int64_t classes, std::int64_t label) {
  double count = 0;
  for (std::int64_t c = lane_of_warp(); c < classes; c += kWarp) {
    if (c < label ? !(row[c] < row[label]) : c > label && !(row[c] <= row[label])) ++count;
  }
  return sum_of_warp(count);
}

__device__ double over_all(const float* row, std::int64_t classes, const Normaliser& norm) {
  const double log_sum = log(norm.sum);
  double sum = 0;
  for (std::int64_t c = lane_of_warp(); c < classes; c += kWarp)
    sum += log_sum + (norm.maximum - row[c]);
  return sum_of_warp(sum);
}

// As the host's: the label of the greater share is the one that is to come first.
struct Target {
  std::int64_t label;
  std::int64_t partner;
  double share;

  __device__ double at(std::int64_t c) const {
    return (c == label ? share : 0.0) + (c == partner ? 1 - share : 0.0);
  }
  __device__ std::int64_t greater() const { return share >= 0.5 ? label : partner; }
};

__device__ Target target_of(const Targets& targets, std::int64_t row) {
  return {targets.labels[row], targets.partners[row], targets.shares[row]};
}

__global__ void row_losses_kernel(const StepInputs* inputs, Targets targets, std::int64_t n,
                                  std::int64_t classes, float smoothing, const float* logits,
                                  double* rows) {
  const std::int64_t row = row_of_warp();
  if (row >= inputs->valid) return;
  const float* values = logits + row * classes;
  const Target target = target_of(targets, row);
  const Normaliser norm = normaliser(values, classes);
  const double before = classes_before(values, classes, target.greater());
  const double log_sum = log(norm.sum);
  double loss = log_sum + (norm.maximum - values[target.label]);
  if (target.share != 1) {
    const double partners = log_sum + (norm.maximum - values[target.partner]);
    loss = target.share * loss + (1 - target.share) * partners;
  }
  if (smoothing != 0) {
    const double all = over_all(values, classes, norm);
    loss = (1 - static_cast<double>(smoothing)) * loss +
           static_cast<double>(smoothing) * all / static_cast<double>(classes);
  }
  if (lane_of_warp() != 0) return;
  rows[row] = loss;
  rows[n + row] = before;
}

// The rows in order, as one thread: a few hundred at most matter to nobody's time.
__global__ void sums_kernel(const StepInputs* inputs, std::int64_t n, const double* rows,
                            DeviceSums* sums) {
  DeviceSums result;
  result.samples = inputs->valid;
  for (std::int64_t row = 0; row < inputs->valid; ++row) {
    result.loss += rows[row];
    if (rows[n + row] < 1) ++result.correct;
    if (rows[n + row] < 5) ++result.correct_top5;
  }
  *sums = result;
}

template <class T>
__global__ void gradient_kernel(const StepInputs* inputs, Targets targets, std::int64_t n,
                                std::int64_t classes, float smoothing, const float* logits,
                                T* d_logits) {
  const std::int64_t row = row_of_warp();
  if (row >= n) return;
  T* out = d_logits + row * classes;
  if (row >= inputs->valid) {
    for (std::int64_t c = lane_of_warp(); c < classes; c += kWarp) out[c] = 0.0F;
    return;
  }
  const float* values = logits + row * classes;
  const double background = static_cast<double>(smoothing) / static_cast<double>(classes);
  const Target wanted = target_of(targets, row);
  const Normaliser norm = normaliser(values, classes);
  for (std::int64_t c = lane_of_warp(); c < classes; c += kWarp) {
    const double probability = exp(values[c] - norm.maximum) / norm.sum;
    const double target = background + (1 - static_cast<double>(smoothing)) * wanted.at(c);
    out[c] = static_cast<float>((probability - target) / inputs->global_count);
  }
}

__global__ void write_sums_kernel(const DeviceSums* sums, float* control) {
  const bool finite = sums->loss * 0 == 0;
  control[2] = static_cast<float>(sums->samples);
  control[3] = finite ? static_cast<float>(sums->loss) : 0.0F;
  control[4] = static_cast<float>(sums->correct);
  control[kNotFinite] = finite ? 0.0F : 1.0F;
  control[kCorrectTop5] = static_cast<float>(sums->correct_top5);
}

cudaLaunchConfig_t warp_a_row(const Queue& queue, std::int64_t n) {
  const std::int64_t blocks = (n * kWarp + kThreads - 1) / kThreads;
  return grid(queue, dim3{static_cast<unsigned int>(blocks), 1, 1}, dim3{kThreads, 1, 1});
}

}  // namespace

void softmax_cross_entropy(const Queue& queue, const StepInputs* inputs, const Targets& targets,
                           std::int64_t n, std::int64_t classes, float smoothing,
                           const float* logits, double* rows, DeviceSums* sums) {
  const cudaLaunchConfig_t config = warp_a_row(queue, n);
  check(cudaLaunchKernelEx(&config, row_losses_kernel, inputs, targets, n, classes, smoothing,
                           logits, rows),
        "starting the kernel row_losses");
  const cudaLaunchConfig_t one = grid(queue, dim3{1, 1, 1}, dim3{1, 1, 1});
  check(cudaLaunchKernelEx(&one, sums_kernel, inputs, n, rows, sums),
        "starting the kernel loss_sums");
}

void softmax_cross_entropy_gradient(const Queue& queue, const StepInputs* inputs,
                                    const Targets& targets, std::int64_t n, std::int64_t classes,
                                    float smoothing, const float* logits, const Array& d_logits) {
  with_type(d_logits.type, [&]<class T>(std::type_identity<T>) {
    const cudaLaunchConfig_t config = warp_a_row(queue, n);
    check(cudaLaunchKernelEx(&config, gradient_kernel<T>, inputs, targets, n, classes, smoothing,
                             logits, d_logits.as<T>()),
          "starting the kernel loss_gradient");
  });
}

void write_sums(const Queue& queue, const DeviceSums* sums, float* control) {
  const cudaLaunchConfig_t one = grid(queue, dim3{1, 1, 1}, dim3{1, 1, 1});
  check(cudaLaunchKernelEx(&one, write_sums_kernel, sums, control),
        "starting the kernel write_sums");
}

}  // namespace coxswain::backend::cuda
