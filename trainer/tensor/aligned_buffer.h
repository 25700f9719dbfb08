#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <utility>

namespace coxswain::tensor {

// Resource. Zeroed memory on a page boundary, with huge pages where the kernel gives them. Pages
// that are never touched cost nothing. Movable, so that it can live in a vector.
template <typename T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::int64_t count) : count_(static_cast<std::size_t>(count)) {
    if (count_ == 0) return;
    if (count_ > kLargest / sizeof(T)) throw std::bad_alloc();  // negative counts too
    void* memory = mmap(nullptr, count_ * sizeof(T), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    if (count_ * sizeof(T) >= kHugePage) madvise(memory, count_ * sizeof(T), MADV_HUGEPAGE);
    data_ = static_cast<T*>(memory);
  }
  ~AlignedBuffer() {
    if (data_ != nullptr) munmap(data_, count_ * sizeof(T));
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  std::span<T> span() const { return {data_, count_}; }

 private:
  static constexpr std::size_t kHugePage = 2U << 20;
  static constexpr std::size_t kLargest = std::numeric_limits<std::ptrdiff_t>::max();

  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace coxswain::tensor
