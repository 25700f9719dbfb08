#include "trainer/backend/cuda/cuda_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "trainer/contract/error.h"
#include "trainer/tensor/device_span.h"

namespace coxswain::backend::cuda {

using tensor::device_span;

namespace {

constexpr std::size_t kBytes = sizeof(float);
constexpr std::size_t kMostStaged = std::size_t{4} << 20;

// Words of a step.
enum : std::uint64_t { kFill = 101, kCopy, kAdd, kMultiply, kWrite };
std::uint64_t word(const void* address) { return std::bit_cast<std::uint64_t>(address); }

}  // namespace

// Resource. One snapshot on its way: the copy on the device, the one on the host, and when that is
// there. Used again once it was read.
struct CudaMemory::Copy {
  DeviceMemory device;
  PinnedMemory host;
  Event made = make_event();     // on the device
  Event arrived = make_event();  // on the host
};

// Copies that nobody waits for. Shared with the snapshots, which other threads read.
struct CudaMemory::Pool {
  Stream stream = make_stream();
  std::mutex mutex;
  std::vector<std::unique_ptr<Copy>> free;

  std::unique_ptr<Copy> take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex);
      const auto fits = std::ranges::find_if(
          free, [&](const auto& copy) { return copy->device.size() == bytes; });
      if (fits != free.end()) {
        auto copy = std::move(*fits);
        free.erase(fits);
        return copy;
      }
    }
    auto copy = std::make_unique<Copy>();
    copy->device = DeviceMemory(bytes, "a snapshot");
    copy->host = PinnedMemory(bytes);
    return copy;
  }

  // One that nobody has read may still be under way; its next use comes after, in order.
  void give_back(std::unique_ptr<Copy> copy) {
    const std::lock_guard lock(mutex);
    free.push_back(std::move(copy));
  }
};

CudaMemory::CudaMemory(const Queue& queue, StepGraphs& steps)
    : queue_(queue), steps_(steps), pool_(std::make_shared<Pool>()) {}

tensor::Buffer CudaMemory::allocate(std::int64_t floats) {
  const std::size_t bytes = static_cast<std::size_t>(floats) * kBytes;
  auto owner = std::make_shared<DeviceMemory>(bytes, "parameters");
  if (bytes > 0)
    check(cudaMemsetAsync(owner->data(), 0, bytes, queue_.stream), "clearing device memory");
  return {{tensor::Place::kDevice, reinterpret_cast<float*>(owner->data()), floats}, owner};
}

void CudaMemory::fill(const tensor::Slice& to, float value) {
  const auto span = device_span(to);
  if (!steps_.asks({kFill, word(span.data()), span.size(), std::bit_cast<std::uint32_t>(value)}))
    return;
  cuda::fill(queue_, span.data(), value, std::ssize(span));
}

void CudaMemory::copy(const tensor::Slice& from, const tensor::Slice& to) {
  const auto source = device_span(from);
  if (!steps_.asks({kCopy, word(source.data()), word(device_span(to).data()), source.size()}))
    return;
  check(cudaMemcpyAsync(device_span(to).data(), source.data(), source.size_bytes(),
                        cudaMemcpyDeviceToDevice, queue_.stream),
        "copying on the device");
}

void CudaMemory::add(const tensor::Slice& into, const tensor::Slice& from) {
  const auto span = device_span(into);
  if (!steps_.asks({kAdd, word(span.data()), word(device_span(from).data()), span.size()})) return;
  add_into(queue_, span.data(), device_span(from).data(), std::ssize(span));
}

// The factor may be another each time that a recorded step is made.
void CudaMemory::multiply(const tensor::Slice& of, float by) {
  const auto span = device_span(of);
  const bool enqueues = steps_.asks({kMultiply, word(span.data()), span.size()});
  std::memcpy(steps_.take(sizeof(by)), &by, sizeof(by));
  steps_.send(factor_.data());
  if (enqueues)
    scale(queue_, span.data(), reinterpret_cast<const float*>(factor_.data()), std::ssize(span));
}

void CudaMemory::write(std::span<const float> from, const tensor::Slice& to) {
  float* out = device_span(to).data();
  while (!from.empty()) {
    const auto part = from.first(std::min(from.size(), kMostStaged / kBytes));
    steps_.asks({kWrite, word(out), part.size()});
    std::memcpy(steps_.take(part.size_bytes()), part.data(), part.size_bytes());
    steps_.send(reinterpret_cast<std::byte*>(out));
    from = from.subspan(part.size());
    out += part.size();
  }
}

tensor::Memory::Snapshot CudaMemory::snapshot(const tensor::Slice& from) {
  const auto span = device_span(from);
  if (steps_.is_recorded())
    throw Error(ExitCode::kInternal, "[cuda] a snapshot was asked for within a step");
  if (span.empty()) return [] { return std::vector<float>(); };
  const std::shared_ptr<Copy> copy(
      pool_->take(span.size_bytes()).release(),
      [pool = pool_](Copy* read) { pool->give_back(std::unique_ptr<Copy>(read)); });
  check(cudaMemcpyAsync(copy->device.data(), span.data(), span.size_bytes(),
                        cudaMemcpyDeviceToDevice, queue_.stream),
        "taking a snapshot");
  check(cudaEventRecord(copy->made.get(), queue_.stream), "marking a snapshot");
  check(cudaStreamWaitEvent(pool_->stream.get(), copy->made.get(), 0), "waiting for a snapshot");
  check(cudaMemcpyAsync(copy->host.data(), copy->device.data(), span.size_bytes(),
                        cudaMemcpyDeviceToHost, pool_->stream.get()),
        "bringing a snapshot to the host");
  check(cudaEventRecord(copy->arrived.get(), pool_->stream.get()), "marking a snapshot's arrival");
  return [copy, count = span.size()] {
    check(cudaEventSynchronize(copy->arrived.get()), "waiting for a snapshot");
    const auto* floats = reinterpret_cast<const float*>(copy->host.data());
    std::vector<float> values(floats, floats + count);
    return values;
  };
}

}  // namespace coxswain::backend::cuda
