#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "trainer/backend/cuda/device.h"
#include "trainer/graph/plan_memory.h"

namespace coxswain::backend::cuda {

using tensor::DataType;

// Resource. The memory that all executables of a backend compute in, one at a time. Grows when one
// is prepared; then its address, and the generation, are others.
class Arena {
 public:
  void reserve(std::int64_t bytes);
  std::byte* data() const { return memory_.data(); }
  int generation() const { return generation_; }

 private:
  DeviceMemory memory_;
  int generation_ = 0;
};

// The addresses of a tape's buffers while it runs.
class Addresses {
 public:
  template <typename T>
  T* at(int buffer) const {  // null for -1
    if (buffer < 0) return nullptr;
    return reinterpret_cast<T*>(arena_ + offsets_[static_cast<std::size_t>(buffer)]);
  }
  Array at(int buffer) const {
    if (buffer < 0) return {};
    return {at<void>(buffer), types_[static_cast<std::size_t>(buffer)]};
  }

 private:
  friend class Tape;
  std::byte* arena_ = nullptr;
  std::vector<std::int64_t> offsets_;
  std::vector<DataType> types_;
};

using Work = std::function<void(const Addresses&)>;

// Resource. What an executable enqueues, step by step. Recorded at prepare; run() allocates
// nothing. A buffer lives from the first to the last piece of work that names it, or that touch()
// names.
class Tape {
 public:
  // An array of float32 if it is one and says no other type.
  int new_buffer(std::int64_t bytes, DataType type = DataType::kFloat32);
  int new_array(std::int64_t count, DataType type) {
    return new_buffer(count * tensor::size_of(type), type);
  }
  DataType type_of(int buffer) const { return addresses_.types_[static_cast<std::size_t>(buffer)]; }
  void touch(int buffer);

  void end_step(const std::vector<int>& written);  // buffers that must still hold their values
  void add(const std::vector<int>& buffers, Work work);

  std::int64_t finish();  // closes the recording; the bytes of arena that bind() needs
  void bind(std::byte* arena) { addresses_.arena_ = arena; }
  const Addresses& addresses() const { return addresses_; }
  void run(int step) const;

 private:
  void touch_at(int buffer, int work);

  std::vector<Work> work_;
  std::vector<int> step_ends_;  // one past the last work of each step
  std::vector<graph::Lifetime> lifetimes_;
  Addresses addresses_;
};

}  // namespace coxswain::backend::cuda
