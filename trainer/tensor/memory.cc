#include "trainer/tensor/memory.h"

#include <algorithm>

#include "trainer/contract/error.h"
#include "trainer/tensor/aligned_buffer.h"
#include "trainer/tensor/device_span.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::tensor {

std::span<float> host_span(const Slice& slice) {
  if (slice.place_ != Place::kHost) {
    throw Error(ExitCode::kInternal, "[tensor] a slice of a device was read on the host");
  }
  return {slice.address_, static_cast<std::size_t>(slice.size_)};
}

std::span<float> device_span(const Slice& slice) {
  if (slice.place_ != Place::kDevice) {
    throw Error(ExitCode::kInternal, "[tensor] a slice of the host was given to a device");
  }
  return {slice.address_, static_cast<std::size_t>(slice.size_)};
}

Buffer HostMemory::allocate(std::int64_t floats) {
  auto owner = std::make_shared<AlignedBuffer<float>>(floats);
  const Slice slice = owner->span();
  return {slice, std::move(owner)};
}

void HostMemory::fill(const Slice& to, float value) { std::ranges::fill(host_span(to), value); }

void HostMemory::copy(const Slice& from, const Slice& to) {
  std::ranges::copy(host_span(from), host_span(to).begin());
}

void HostMemory::add(const Slice& into, const Slice& from) {
  float* out = host_span(into).data();
  const float* in = host_span(from).data();
  for (std::int64_t i = 0; i < into.size(); ++i) out[i] += in[i];
}

void HostMemory::multiply(const Slice& of, float by) {
  for (float& value : host_span(of)) value *= by;
}

void HostMemory::write(std::span<const float> from, const Slice& to) {
  std::ranges::copy(from, host_span(to).begin());
}

Memory::Snapshot HostMemory::snapshot(const Slice& from) {
  const std::span<const float> floats = host_span(from);
  auto copy = std::make_shared<std::vector<float>>(floats.begin(), floats.end());
  return [copy] { return std::move(*copy); };
}

}  // namespace coxswain::tensor
