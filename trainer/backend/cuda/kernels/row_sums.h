#pragma once

#include "trainer/backend/cuda/kernels/launch.h"

// Sums over the rows of (rows, channels), for the kernels' own sources: chunks of rows are summed
// by one block each, then the chunks in order.
namespace coxswain::backend::cuda {

constexpr unsigned int kColumns = 32;      // channels of a block: neighbours in memory
constexpr unsigned int kRowsAtOnce = 8;    // a warp each
constexpr std::int64_t kRowsOfChunk = 64;  // at least
constexpr std::int64_t kMostChunks = 512;

// Value. How rows are cut.
struct Chunks {
  std::int64_t count = 1;
  std::int64_t rows = 1;  // of each but the last
};

inline Chunks chunks_of(std::int64_t rows) {
  const std::int64_t wanted = (rows + kRowsOfChunk - 1) / kRowsOfChunk;
  const std::int64_t most = std::clamp<std::int64_t>(wanted, 1, kMostChunks);
  const std::int64_t each = (rows + most - 1) / most;
  return {(rows + each - 1) / each, each};
}

namespace {

// The sum over the rows of a block, for its column; to the threads of the first row.
[[maybe_unused]] __device__ double sum_of_rows(double value) {
  __shared__ double rows[kRowsAtOnce][kColumns];
  rows[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
  double sum = 0;
  if (threadIdx.y == 0) {
    for (unsigned int row = 0; row < kRowsAtOnce; ++row) sum += rows[row][threadIdx.x];
  }
  __syncthreads();  // the next sum is written into the same place
  return sum;
}

// Terms::kSums sums, partial[sum][chunk][channel], of terms(element, channel, which sum).
template <class Terms>
__global__ void partial_sums_kernel(Terms terms, std::int64_t rows, std::int64_t channels,
                                    Chunks chunks, double* partial) {
  const std::int64_t channel = std::int64_t{blockIdx.x} * kColumns + threadIdx.x;
  const std::int64_t first = std::int64_t{blockIdx.y} * chunks.rows;
  const std::int64_t last = first + chunks.rows < rows ? first + chunks.rows : rows;
  double sums[Terms::kSums] = {};
  if (channel < channels) {
    for (std::int64_t row = first + threadIdx.y; row < last; row += kRowsAtOnce) {
      for (int sum = 0; sum < Terms::kSums; ++sum)
        sums[sum] += terms(row * channels + channel, channel, sum);
    }
  }
  for (int sum = 0; sum < Terms::kSums; ++sum) {
    const double total = sum_of_rows(sums[sum]);
    if (threadIdx.y == 0 && channel < channels)
      partial[(sum * chunks.count + blockIdx.y) * channels + channel] = total;
  }
}

[[maybe_unused]] __device__ double sum_of_chunks(const double* partial, std::int64_t channels,
                                                 Chunks chunks, std::int64_t channel, int sum) {
  double total = 0;
  for (std::int64_t chunk = 0; chunk < chunks.count; ++chunk)
    total += partial[(sum * chunks.count + chunk) * channels + channel];
  return total;
}

constexpr int kMostSums = 2;

// The sums over the columns of a block of one row; to its first thread.
[[maybe_unused]] __device__ void sum_columns(double* sums, int count) {
  __shared__ double columns[kMostSums][kColumns];
  for (int sum = 0; sum < count; ++sum) columns[sum][threadIdx.x] = sums[sum];
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int sum = 0; sum < count; ++sum) {
    sums[sum] = 0;
    for (unsigned int i = 0; i < kColumns; ++i) sums[sum] += columns[sum][i];
  }
}

template <class Terms>
void start_partial_sums(const Queue& queue, const Terms& terms, std::int64_t rows,
                        std::int64_t channels, double* partial) {
  const Chunks chunks = chunks_of(rows);
  const auto across = static_cast<unsigned int>((channels + kColumns - 1) / kColumns);
  const cudaLaunchConfig_t config =
      grid(queue, dim3{across, static_cast<unsigned int>(chunks.count), 1},
           dim3{kColumns, kRowsAtOnce, 1});
  check(cudaLaunchKernelEx(&config, partial_sums_kernel<Terms>, terms, rows, channels, chunks,
                           partial),
        "starting the kernel partial_sums");
}

}  // namespace

}  // namespace coxswain::backend::cuda
