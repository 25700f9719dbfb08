#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "trainer/tensor/slice.h"

namespace coxswain::tensor {

// Resource. Owns the floats of a slice.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Slice slice, std::shared_ptr<const void> owner)
      : slice_(slice), owner_(std::move(owner)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&&) = default;
  Buffer& operator=(Buffer&&) = default;

  Slice slice() const { return slice_; }

 private:
  Slice slice_;
  std::shared_ptr<const void> owner_;
};

// The memory of one device, and what can be done with its floats without a program. Everything is
// enqueued behind what the device was asked before; a host does it at once. Slices of one call are
// of one size; they lie in this memory and stay there until it is done.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual Place place() const = 0;
  virtual Buffer allocate(std::int64_t floats) = 0;  // zeros

  virtual void fill(const Slice& to, float value) = 0;
  virtual void copy(const Slice& from, const Slice& to) = 0;
  // into[i] += from[i]. Elementwise: any cut gives the same bits.
  virtual void add(const Slice& into, const Slice& from) = 0;
  virtual void multiply(const Slice& of, float by) = 0;
  virtual void write(std::span<const float> from, const Slice& to) = 0;

  // What the slice holds once all that was asked before is done, whatever is asked later. To be
  // called once, on any thread; it waits if it must.
  using Snapshot = std::function<std::vector<float>()>;
  virtual Snapshot snapshot(const Slice& from) = 0;
};

// Resource, without state.
class HostMemory final : public Memory {
 public:
  Place place() const override { return Place::kHost; }
  Buffer allocate(std::int64_t floats) override;
  void fill(const Slice& to, float value) override;
  void copy(const Slice& from, const Slice& to) override;
  void add(const Slice& into, const Slice& from) override;
  void multiply(const Slice& of, float by) override;
  void write(std::span<const float> from, const Slice& to) override;
  Snapshot snapshot(const Slice& from) override;
};

}  // namespace coxswain::tensor
