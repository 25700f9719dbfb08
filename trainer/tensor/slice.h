#pragma once

#include <cassert>
#include <concepts>
#include <cstdint>
#include <span>

namespace coxswain::tensor {

// Where floats lie: in the host's memory, or in a device's.
enum class Place { kHost, kDevice };

// View. Floats in some memory. Who does not reach that memory may pass a slice on, but not look
// into it; the host does by host_span(), a device's backend by device_span().
class Slice {
 public:
  Slice() = default;
  template <std::convertible_to<std::span<float>> Floats>
  Slice(Floats&& host)  // NOLINT(google-explicit-constructor): the host's floats are a slice
      : Slice(std::span<float>(host)) {}
  Slice(std::span<float> host)  // NOLINT(google-explicit-constructor)
      : Slice(Place::kHost, host.data(), static_cast<std::int64_t>(host.size())) {}
  Slice(Place place, float* address, std::int64_t size)
      : place_(place), address_(address), size_(size) {}

  Place place() const { return place_; }
  std::int64_t size() const { return size_; }  // floats
  Slice range(std::int64_t offset, std::int64_t length) const {
    assert(offset >= 0 && length >= 0 && offset + length <= size_);
    return {place_, address_ + offset, length};
  }

 private:
  friend std::span<float> host_span(const Slice& slice);
  friend std::span<float> device_span(const Slice& slice);

  Place place_ = Place::kHost;
  float* address_ = nullptr;
  std::int64_t size_ = 0;
};

}  // namespace coxswain::tensor
