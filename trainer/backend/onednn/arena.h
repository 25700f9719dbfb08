#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/tensor/aligned_buffer.h"

namespace coxswain::backend::onednn {

// Resource. The working memory that all executables of a backend share; it grows at prepare, which
// moves it: an executable binds anew when the generation has changed.
class Arena {
 public:
  void reserve(std::int64_t bytes) {
    if (bytes <= static_cast<std::int64_t>(memory_.size())) return;
    memory_ = {};
    memory_ = tensor::AlignedBuffer<std::byte>(bytes);
    ++generation_;
  }
  std::byte* data() const { return memory_.data(); }
  std::int64_t generation() const { return generation_; }

 private:
  tensor::AlignedBuffer<std::byte> memory_;
  std::int64_t generation_ = 0;
};

}  // namespace coxswain::backend::onednn
