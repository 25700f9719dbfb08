#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "trainer/backend/onednn/onednn_compat.h"
#include "trainer/graph/plan_memory.h"

namespace coxswain::backend::onednn {

// Value. A tensor of the tape: where it lies and in which order. `buffer` is -1 for memory outside
// the arena (weights, gradients), whose address is fixed from the start.
struct Tensor {
  Desc desc;
  dnnl::memory memory;
  int buffer = -1;
};

// Value. One argument of a primitive, DNNL_ARG_*.
struct Argument {
  int id;
  Tensor tensor;
};

// The addresses of the tape's buffers while it runs.
class Addresses {
 public:
  template <typename T>
  T* at(int buffer) const {
    return reinterpret_cast<T*>(addresses_[static_cast<std::size_t>(buffer)]);
  }
  std::byte* bytes(int buffer) const { return at<std::byte>(buffer); }

 private:
  friend class Tape;
  std::vector<std::byte*> addresses_;
};

using Loop = std::function<void(const Addresses&)>;

// Resource. What an executable does, step by step: primitives with their argument lists made once,
// and loops of our own. Recorded at prepare; afterwards bind() places its buffers and run()
// allocates nothing.
//
// A buffer lives from the first to the last operation that names it, or that touch() names.
class Tape {
 public:
  explicit Tape(const dnnl::engine& engine) : engine_(engine), stream_(engine) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  const dnnl::engine& engine() const { return engine_; }

  int new_buffer(std::int64_t bytes);
  Tensor new_tensor(const Desc& desc);
  Tensor view(const Desc& desc, int buffer, std::int64_t offset = 0);  // offset in bytes
  Tensor outside(const Desc& desc, void* data) const;  // memory that is not the tape's
  void touch(int buffer);  // alive at the next operation (or the last, once the step is over)

  // Operations recorded from here on run only while *condition == wanted; nullptr: always.
  void run_when(const bool* condition, bool wanted = true) {
    condition_ = condition;
    wanted_ = wanted;
  }

  void begin_step();
  void end_step(
      const std::vector<int>& written);  // buffers that must still hold their values afterwards
  void add(const dnnl::primitive& primitive, const Desc& scratchpad,
           std::vector<Argument> arguments);
  void add(const std::vector<int>& buffers, Loop loop);

  // Closes the recording; returns the bytes of arena that bind() needs.
  std::int64_t finish();
  void bind(std::byte* arena);
  const Addresses& addresses() const { return addresses_; }
  void run(int step);

 private:
  struct Operation {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
    std::vector<dnnl::memory> memories;  // keeps what `arguments` points to
    Loop loop;
    const bool* condition = nullptr;
    bool wanted = true;
  };
  struct View {
    dnnl::memory memory;
    int buffer;
    std::int64_t offset;
  };

  void append(Operation operation);
  void touch_at(int buffer, int operation);

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<Operation> operations_;
  std::vector<int> step_ends_;  // one past the last operation of each step
  std::vector<graph::Lifetime> lifetimes_;
  std::vector<View> views_;
  graph::MemoryPlan plan_;
  const bool* condition_ = nullptr;
  bool wanted_ = true;
  Addresses addresses_;
};

}  // namespace coxswain::backend::onednn
