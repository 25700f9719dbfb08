// Of the host's device itself, and of what the backend says when a device is wanting.
#include "tests/support/cuda_host/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/support/cuda_host/cuda_runtime.h"
#include "tests/support/model_run.h"
#include "tests/support/operation_cases.h"
#include "trainer/backend/cuda/check.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/contract/error.h"

namespace coxswain::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Resource. A stream and some floats of the device.
struct Bench {
  Bench() {
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    void* memory = nullptr;
    cudaMalloc(&memory, 64 * sizeof(float));
    floats = static_cast<float*>(memory);
  }
  ~Bench() {
    cudaDeviceSynchronize();
    cudaFree(floats);
    cudaEventDestroy(event);
    cudaStreamDestroy(other);
    cudaStreamDestroy(stream);
  }
  cudaLaunchConfig_t of(unsigned int blocks, unsigned int threads) const {
    return {{blocks, 1, 1}, {threads, 1, 1}, 0, stream};
  }

  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  float* floats = nullptr;
};

void half_wait_kernel(float* out) {
  if (threadIdx.x % 2 == 0) __syncthreads();
  out[threadIdx.x] = 1;
}

TEST(CudaHostDeathTest, a_barrier_that_half_the_threads_reach_is_told_by_the_kernels_name) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Bench bench;
        const auto config = bench.of(1, 8);
        cudaLaunchKernelEx(&config, half_wait_kernel, bench.floats);
        cudaStreamSynchronize(bench.stream);
      },
      "kernel half_wait_kernel: not all of 8 threads reach a barrier: 4 wait");
}

TEST(CudaCheck, tells_a_fault_of_the_device_from_an_error_of_ours) {
  const auto code_of = [](cudaError_t result) {
    try {
      backend::cuda::check(result, "waiting for a step");
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kDone;
  };
  EXPECT_EQ(code_of(cudaSuccess), ExitCode::kDone);
  EXPECT_EQ(code_of(cudaErrorInvalidValue), ExitCode::kInternal);
  EXPECT_EQ(code_of(cudaErrorECCUncorrectable), ExitCode::kDevice);
  EXPECT_EQ(code_of(cudaErrorIllegalAddress), ExitCode::kDevice);
}

// Each warp's lanes rotated by one step of a butterfly, and which thread came first.
void shuffle_kernel(float* out, int* first) {
  if (*first < 0) *first = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFU, static_cast<float>(threadIdx.x), 1);
}

TEST(CudaHost, a_shuffle_gives_what_the_other_lane_holds_in_any_order_of_threads) {
  std::set<int> firsts;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    cuda_host::set_seed(seed);
    Bench bench;
    int first = -1;
    const auto config = bench.of(1, 64);
    cudaLaunchKernelEx(&config, shuffle_kernel, bench.floats, &first);
    cudaStreamSynchronize(bench.stream);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(bench.floats[i], i ^ 1);
    firsts.insert(first);
  }
  EXPECT_GT(firsts.size(), 8U);
}

void set_kernel(float* out, float value) { *out = value; }
void add_kernel(float* out, float value) { *out += value; }

TEST(CudaHost, work_waits_until_somebody_waits_for_it) {
  cuda_host::set_seed(1);
  Bench bench;
  bench.floats[0] = 0;
  const auto config = bench.of(1, 1);
  cudaLaunchKernelEx(&config, set_kernel, bench.floats, 2);
  EXPECT_EQ(bench.floats[0], 0);
  cudaStreamSynchronize(bench.stream);
  EXPECT_EQ(bench.floats[0], 2);
}

TEST(CudaHost, an_event_orders_two_streams) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    cuda_host::set_seed(seed);
    Bench bench;
    const auto first = bench.of(1, 1);
    auto second = first;
    second.stream = bench.other;
    cudaLaunchKernelEx(&first, set_kernel, bench.floats, 2);
    cudaEventRecord(bench.event, bench.stream);
    cudaStreamWaitEvent(bench.other, bench.event);
    cudaLaunchKernelEx(&second, add_kernel, bench.floats, 5);
    cudaStreamSynchronize(bench.other);
    EXPECT_EQ(bench.floats[0], 7);
  }
}

TEST(CudaHost, a_captured_graph_does_its_work_at_each_launch_and_not_before) {
  Bench bench;
  bench.floats[0] = 1;
  const auto config = bench.of(1, 1);
  cudaStreamBeginCapture(bench.stream, cudaStreamCaptureModeThreadLocal);
  cudaLaunchKernelEx(&config, add_kernel, bench.floats, 3);
  EXPECT_EQ(cudaStreamSynchronize(bench.stream), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(bench.stream, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  cudaGraphLaunch(exec, bench.stream);
  cudaGraphLaunch(exec, bench.stream);
  EXPECT_EQ(bench.floats[0], 1);
  cudaStreamSynchronize(bench.stream);
  EXPECT_EQ(bench.floats[0], 7);
  cudaGraphExecDestroy(exec);
}

TEST(CudaHost, a_capture_that_another_stream_does_not_come_back_to_is_refused) {
  Bench bench;
  cudaStreamBeginCapture(bench.stream, cudaStreamCaptureModeThreadLocal);
  cudaEventRecord(bench.event, bench.stream);
  cudaStreamWaitEvent(bench.other, bench.event);
  cudaMemsetAsync(bench.floats, 0, 4, bench.other);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(bench.stream, &graph), cudaErrorStreamCaptureUnjoined);
  cudaGraphDestroy(graph);
}

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CudaBackend, says_in_one_line_that_there_is_no_gpu) {
  cuda_host::set_devices(0);
  EXPECT_THAT(message_of([] { backend::make_cuda_backend(0); }),
              HasSubstr("GPU 0 is wanted, but this process sees 0: no CUDA-capable device"));
  cuda_host::set_devices(1);
  EXPECT_THAT(message_of([] { backend::make_cuda_backend(1); }),
              HasSubstr("GPU 1 is wanted, but this process sees 1"));
}

TEST(CudaBackend, says_how_much_memory_was_wanted_and_for_what) {
  const auto cuda = backend::make_cuda_backend(0);
  const std::size_t before = cuda_host::allocated();
  cuda_host::set_memory(before + (1U << 20));
  EXPECT_THAT(
      message_of([&] { ModelRun run(*cuda, model_of(operation_cases()[0]), {.rows = 4096}); }),
      testing::AllOf(HasSubstr("GiB are wanted for the activations of a step"),
                     HasSubstr("lower batchSize")));
  EXPECT_LT(cuda_host::allocated(), before + (1U << 20));
  cuda_host::set_memory(std::size_t{4} << 30);
  ModelRun run(*cuda, model_of(operation_cases()[0]), {});
  EXPECT_GT(run.forward().loss, 0);
}

}  // namespace
}  // namespace coxswain::test
