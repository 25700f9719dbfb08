#include "trainer/backend/cuda/device.h"

#include <fmt/format.h>

#include "trainer/contract/error.h"

namespace coxswain::backend::cuda {

namespace {

double gib(std::size_t bytes) { return static_cast<double>(bytes) / (1U << 30); }

Event make_event_with(unsigned int flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "making an event");
  return Event(event);
}

}  // namespace

int this_device() {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the GPU in use");
  return device;
}

Event make_event() { return make_event_with(cudaEventDisableTiming); }
Event make_timed_event() { return make_event_with(cudaEventDefault); }

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return Stream(stream);
}

DeviceMemory::DeviceMemory(std::size_t bytes, const char* what) : size_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  const cudaError_t result = cudaMalloc(&data, bytes);
  if (result == cudaErrorMemoryAllocation) {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for the device's free memory");
    throw Error(ExitCode::kInternal,
                fmt::format("[cuda] {:.2f} GiB are wanted for {}, but the GPU has {:.2f} free of "
                            "{:.2f} GiB: lower batchSize, or see who else uses the GPU",
                            gib(bytes), what, gib(free), gib(total)));
  }
  check(result, "allocating device memory");
  data_ = {static_cast<std::byte*>(data), Free{this_device()}};
}

PinnedMemory::PinnedMemory(std::size_t bytes) : size_(bytes) {
  void* data = nullptr;
  check(cudaMallocHost(&data, bytes), "allocating pinned memory");
  data_ = {static_cast<std::byte*>(data), FreePinned{this_device()}};
}

std::byte* Staging::take(std::size_t bytes) {
  Turn& turn = turns_[next_];
  if (turn.event) {
    check(cudaEventSynchronize(turn.event.get()), "waiting for a copy to the device");
  } else {
    turn.event = make_event();
  }
  if (turn.memory.size() < bytes) turn.memory = PinnedMemory(bytes);
  return turn.memory.data();
}

void Staging::sent(cudaStream_t stream) {
  check(cudaEventRecord(turns_[next_].event.get(), stream), "marking a copy to the device");
  next_ = (next_ + 1) % turns_.size();
}

}  // namespace coxswain::backend::cuda
