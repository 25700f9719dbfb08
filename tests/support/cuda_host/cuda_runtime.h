#pragma once

// The part of CUDA's runtime that the trainer uses, on the host: the sources of
// trainer/backend/cuda compile against it as plain C++. See device.h for what such a device does
// and what a test can ask of it.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <tuple>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
// In a section of its own, which is filled anew before each block.
#define __shared__ static __attribute__((section("cuda_shared")))

struct dim3 {
  unsigned int x = 1, y = 1, z = 1;
};

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorECCUncorrectable = 214,
  cudaErrorNvlinkUncorrectable = 220,
  cudaErrorIllegalAddress = 700,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorLaunchFailure = 719,
  cudaErrorSystemNotReady = 802,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1, cudaStreamCaptureModeRelaxed };
constexpr unsigned int cudaStreamNonBlocking = 1;
constexpr unsigned int cudaEventDefault = 0, cudaEventDisableTiming = 2;

struct cudaDeviceProp {
  char name[256];
  int major, minor;
};

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

namespace cuda_host {

using Site = std::source_location;

// Of the fiber that runs.
struct Here {
  dim3 thread, block, threads, blocks;
};
extern Here here;

void barrier(const Site& site);
void warp_barrier(const Site& site);
// What `lane` of this warp gives at the same call.
std::uint64_t exchange(std::uint64_t value, int lane, const Site& site);
int lane();

void enqueue(cudaStream_t stream, std::function<void()> work);
cudaError_t launch(const char* name, const cudaLaunchConfig_t& config,
                   std::function<void()> kernel);

template <class... Expected, class... Actual>
cudaError_t launch(const char* name, const cudaLaunchConfig_t* config, void (*kernel)(Expected...),
                   Actual&&... actual) {
  std::tuple<Expected...> arguments(std::forward<Actual>(actual)...);
  return launch(name, *config, [kernel, arguments] { std::apply(kernel, arguments); });
}

template <class T>
T exchanged(T value, int from, const Site& site) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(bits, from, site);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace cuda_host

inline dim3& threadIdx = cuda_host::here.thread;
inline dim3& blockIdx = cuda_host::here.block;
inline dim3& blockDim = cuda_host::here.threads;
inline dim3& gridDim = cuda_host::here.blocks;

// The kernel's name is the argument's text.
#define cudaLaunchKernelEx(config, ...) ::cuda_host::launch(#__VA_ARGS__, config, __VA_ARGS__)

inline void __syncthreads(cuda_host::Site site = cuda_host::Site::current()) {
  cuda_host::barrier(site);
}
inline void __syncwarp(unsigned int /*mask*/ = 0xFFFFFFFFU,
                       cuda_host::Site site = cuda_host::Site::current()) {
  cuda_host::warp_barrier(site);
}
template <class T>
T __shfl_xor_sync(unsigned int /*mask*/, T value, int with,
                  cuda_host::Site site = cuda_host::Site::current()) {
  return cuda_host::exchanged(value, cuda_host::lane() ^ with, site);
}

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaGetLastError();
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);

cudaError_t cudaMalloc(void** address, std::size_t bytes);
cudaError_t cudaFree(void* address);
cudaError_t cudaMallocHost(void** address, std::size_t bytes);
cudaError_t cudaFreeHost(void* address);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream);

cudaError_t cudaDeviceSynchronize(cuda_host::Site site = cuda_host::Site::current());
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream,
                                  cuda_host::Site site = cuda_host::Site::current());
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags = 0,
                                cuda_host::Site site = cuda_host::Site::current());
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream,
                            cuda_host::Site site = cuda_host::Site::current());
cudaError_t cudaEventSynchronize(cudaEvent_t event,
                                 cuda_host::Site site = cuda_host::Site::current());

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
