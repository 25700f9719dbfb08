#include "trainer/backend/cuda/kernels/flat_buffer.h"
#include "trainer/backend/cuda/kernels/row_sums.h"

namespace coxswain::backend::cuda {

namespace {

__device__ double square(float value) {
  return static_cast<double>(value) * static_cast<double>(value);
}

// What is summed of a tensor, and the rate that follows.
struct Lars {
  static constexpr int kSums = 2;
  optim::UpdateRule rule;
  optim::UpdateStep step;
  FlatBuffer buffer;
  __device__ void add(std::int64_t i, double* sums) const {
    sums[0] += square(buffer.weights[i]);
    sums[1] += square(buffer.gradients[i]);
  }
  __device__ float rate(const RatedTensor& tensor, const double* sums) const {
    if (!tensor.is_weight) return step.lr;
    return optim::lars_rate(rule, step, rule.weight_decay, sums[0], sums[1]);
  }
};

__device__ float direction_at(const optim::UpdateRule& rule, const FlatBuffer& buffer,
                              const optim::LambDirection& direction, std::int64_t i) {
  return direction(buffer.slots[0][i], buffer.slots[1][i],
                   decay_of(rule, buffer.changes[i / kGranule]), buffer.weights[i]);
}

struct Lamb {
  static constexpr int kSums = 2;
  __device__ Lamb(const optim::UpdateRule& by, const optim::UpdateStep& now, const FlatBuffer& all)
      : rule(by), step(now), buffer(all), direction(by, now) {}
  __device__ void add(std::int64_t i, double* sums) const {
    sums[0] += square(buffer.weights[i]);
    sums[1] += square(direction_at(rule, buffer, direction, i));
  }
  __device__ float rate(const RatedTensor&, const double* sums) const {
    return optim::lamb_rate(step, sums[0], sums[1]);
  }
  optim::UpdateRule rule;
  optim::UpdateStep step;
  FlatBuffer buffer;
  optim::LambDirection direction;
};

// What directions are divided by.
struct Muon {
  static constexpr int kSums = 1;
  optim::UpdateRule rule;
  optim::UpdateStep step;
  FlatBuffer buffer;
  __device__ void add(std::int64_t i, double* sums) const {
    sums[0] += square(buffer.directions[i]);
  }
  __device__ float rate(const RatedTensor&, const double* sums) const {
    const auto norm = static_cast<float>(sqrt(sums[0]));
    return norm < rule.epsilon ? rule.epsilon : norm;
  }
};

// partial[piece][sum][column]
template <class Kind>
__global__ void sum_pieces_kernel(optim::UpdateRule rule, const Verdict* verdict, FlatBuffer buffer,
                                  RatedTensors tensors) {
  if (verdict->updates == 0) return;
  const Kind kind{rule, verdict->step, buffer};
  const Piece piece = tensors.pieces[blockIdx.x];
  double sums[Kind::kSums] = {};
  for (std::int64_t i = piece.first + threadIdx.y * kColumns + threadIdx.x; i < piece.last;
       i += kColumns * kRowsAtOnce)
    kind.add(i, sums);
  for (int sum = 0; sum < Kind::kSums; ++sum) {
    const double total = sum_of_rows(sums[sum]);
    if (threadIdx.y == 0)
      tensors.partial[(blockIdx.x * Kind::kSums + sum) * kColumns + threadIdx.x] = total;
  }
}

template <class Kind>
__global__ void find_rates_kernel(optim::UpdateRule rule, const Verdict* verdict, FlatBuffer buffer,
                                  RatedTensors tensors) {
  if (verdict->updates == 0) return;
  const RatedTensor tensor = tensors.tensors[blockIdx.x];
  double sums[Kind::kSums] = {};
  for (std::int64_t piece = tensor.first_piece; piece < tensor.last_piece; ++piece) {
    for (int sum = 0; sum < Kind::kSums; ++sum)
      sums[sum] += tensors.partial[(piece * Kind::kSums + sum) * kColumns + threadIdx.x];
  }
  sum_columns(sums, Kind::kSums);
  if (threadIdx.x != 0) return;
  const Kind kind{rule, verdict->step, buffer};
  buffer.rates[blockIdx.x] = kind.rate(tensor, sums);
}

template <class Kind>
void start(const Queue& queue, const optim::UpdateRule& rule, const Verdict* verdict,
           const FlatBuffer& buffer, const RatedTensors& tensors) {
  static_assert(Kind::kSums * kColumns <= kSumsOfPiece);
  const cudaLaunchConfig_t pieces =
      grid(queue, dim3{static_cast<unsigned int>(tensors.num_pieces), 1, 1},
           dim3{kColumns, kRowsAtOnce, 1});
  check(cudaLaunchKernelEx(&pieces, sum_pieces_kernel<Kind>, rule, verdict, buffer, tensors),
        "starting the kernel sum_pieces");
  const cudaLaunchConfig_t each =
      grid(queue, dim3{static_cast<unsigned int>(tensors.count), 1, 1}, dim3{kColumns, 1, 1});
  check(cudaLaunchKernelEx(&each, find_rates_kernel<Kind>, rule, verdict, buffer, tensors),
        "starting the kernel find_rates");
}

__global__ void follow_lamb_kernel(optim::UpdateRule rule, const Verdict* verdict,
                                   FlatBuffer buffer) {
  if (verdict->updates == 0) return;
  const optim::LambDirection direction(rule, verdict->step);
  for (std::int64_t i = loop_start(); i < buffer.size; i += loop_stride()) {
    if (!is_trained(buffer.changes[i / kGranule])) continue;
    const float move = rate_of(buffer, i) * direction_at(rule, buffer, direction, i);
    store_weight(rule, buffer, i, buffer.weights[i] - move);
  }
}

__device__ bool is_matrix(const FlatBuffer& buffer, std::int64_t i) {
  return buffer.changes[i / kGranule] == Change::kMatrix;
}

__global__ void add_to_means_kernel(optim::UpdateRule rule, const Verdict* verdict,
                                    FlatBuffer buffer) {
  if (verdict->updates == 0) return;
  const optim::MuonDirection direction(verdict->step);
  for (std::int64_t i = loop_start(); i < buffer.size; i += loop_stride()) {
    if (!is_matrix(buffer, i)) continue;
    const float gradient = optim::clipped(rule, verdict->step, buffer.gradients[i]);
    buffer.directions[i] = direction(gradient, buffer.slots[0][i]);
  }
}

__global__ void divide_directions_kernel(const Verdict* verdict, FlatBuffer buffer) {
  if (verdict->updates == 0) return;
  for (std::int64_t i = loop_start(); i < buffer.size; i += loop_stride())
    if (is_matrix(buffer, i)) buffer.directions[i] /= rate_of(buffer, i);
}

__global__ void follow_muon_kernel(optim::UpdateRule rule, const Verdict* verdict,
                                   FlatBuffer buffer, RatedTensors tensors) {
  if (verdict->updates == 0) return;
  for (std::int64_t i = loop_start(); i < buffer.size; i += loop_stride()) {
    if (!is_matrix(buffer, i)) continue;
    const RatedTensor& tensor = tensors.tensors[buffer.tensor_of[i / kGranule]];
    const optim::MuonMove move(verdict->step, rule.weight_decay, tensor.longer_side);
    float weight = buffer.weights[i];
    move(buffer.directions[i], weight);
    store_weight(rule, buffer, i, weight);
  }
}

}  // namespace

void find_rates(const Queue& queue, const optim::UpdateRule& rule, const Verdict* verdict,
                const FlatBuffer& buffer, const RatedTensors& tensors) {
  if (rule.kind == OptimizerKind::kLars) return start<Lars>(queue, rule, verdict, buffer, tensors);
  start<Lamb>(queue, rule, verdict, buffer, tensors);
}

void follow_lamb(const Queue& queue, const optim::UpdateRule& rule, const Verdict* verdict,
                 const FlatBuffer& buffer) {
  const cudaLaunchConfig_t config = loop_over(queue, buffer.size);
  check(cudaLaunchKernelEx(&config, follow_lamb_kernel, rule, verdict, buffer),
        "starting the kernel follow_lamb");
}

void find_directions(const Queue& queue, const optim::UpdateRule& rule, const Verdict* verdict,
                     const FlatBuffer& buffer, const RatedTensors& tensors) {
  const cudaLaunchConfig_t config = loop_over(queue, buffer.size);
  check(cudaLaunchKernelEx(&config, add_to_means_kernel, rule, verdict, buffer),
        "starting the kernel add_to_means");
  start<Muon>(queue, rule, verdict, buffer, tensors);
  check(cudaLaunchKernelEx(&config, divide_directions_kernel, verdict, buffer),
        "starting the kernel divide_directions");
}

void follow_muon(const Queue& queue, const optim::UpdateRule& rule, const Verdict* verdict,
                 const FlatBuffer& buffer, const RatedTensors& tensors) {
  const cudaLaunchConfig_t config = loop_over(queue, buffer.size);
  check(cudaLaunchKernelEx(&config, follow_muon_kernel, rule, verdict, buffer, tensors),
        "starting the kernel follow_muon");
}

}  // namespace coxswain::backend::cuda
