#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/backend/cuda/check.h"
#include "trainer/backend/cuda/kernels/kernels.h"

namespace coxswain::backend::cuda {

// Owners of what the runtime gives. Memory is given back once all that was enqueued on its device
// is done, and may use it no more: by any thread, whose device need not be that one.

int this_device();  // of this thread

struct Free {
  int device = 0;
  void operator()(void* memory) const {
    cudaSetDevice(device);
    cudaDeviceSynchronize();
    cudaFree(memory);
  }
};
struct FreePinned {
  int device = 0;
  void operator()(void* host) const {
    cudaSetDevice(device);
    cudaDeviceSynchronize();
    cudaFreeHost(host);
  }
};
struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
struct DestroyStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;

Event make_event();
Event make_timed_event();  // for cudaEventElapsedTime, and dearer
Stream make_stream();

// Resource. Bytes on the device, undefined at first. Throws Error that says how much was wanted for
// `what` and how much there is.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(std::size_t bytes, const char* what);
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

// Resource. Bytes of the host that the device copies by itself.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(std::size_t bytes);
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  std::unique_ptr<std::byte, FreePinned> data_;
  std::size_t size_ = 0;
};

// Resource. Pinned memory for what goes to the device, in turns: a turn comes again when its copy
// is over, so that the host may be that many copies ahead.
class Staging {
 public:
  explicit Staging(int turns) : turns_(static_cast<std::size_t>(turns)) {}

  // Waits for the turn's last copy. Valid until sent().
  std::byte* take(std::size_t bytes);
  // To be called once what was taken is on its way over `stream`.
  void sent(cudaStream_t stream);

 private:
  struct Turn {
    PinnedMemory memory;
    Event event;
  };
  std::vector<Turn> turns_;
  std::size_t next_ = 0;
};

}  // namespace coxswain::backend::cuda
