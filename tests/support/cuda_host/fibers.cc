#include "tests/support/cuda_host/fibers.h"

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/cuda_host/cuda_runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#else
namespace {
void __sanitizer_start_switch_fiber(void**, const void*, std::size_t) {}
void __sanitizer_finish_switch_fiber(void*, const void**, std::size_t*) {}
}  // namespace
#endif

namespace cuda_host {

namespace {

using boost::context::fiber;

constexpr std::size_t kStack = 64U << 10;
constexpr std::size_t kWarp = 32;

enum class State { kReady, kAtBarrier, kAtWarp, kEnded };

// A stack that runs one thread of a block after another.
struct Thread {
  fiber context;
  State state = State::kEnded;
  dim3 index;
  void* stack = nullptr;
  void* fake_stack = nullptr;
};

// The threads of the block that runs; of one at a time in the process.
class Block {
 public:
  void run(const char* name, const std::function<void()>& kernel, Random& random);
  void stop(State state);
  std::size_t running() const { return running_; }

 private:
  void start(std::size_t count, Random& random);
  void resume(std::size_t index);
  void enter(fiber&& caller);
  void arrive_at_warp(Random& random);
  bool release_barrier(Random& random);
  void make_ready(std::size_t index, Random& random);
  [[noreturn]] void report(const char* name) const;

  const std::function<void()>* kernel_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<std::size_t> ready_;
  std::vector<std::size_t> arrived_;  // by warp
  std::size_t count_ = 0;
  std::size_t running_ = 0;
  fiber caller_;
  void* caller_fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_size_ = 0;
};

Block& block() {
  static Block& one = *std::make_unique<Block>().release();
  return one;
}

dim3 index_of(std::size_t thread) {
  const auto i = static_cast<unsigned int>(thread);
  return {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
}

void Block::make_ready(std::size_t index, Random& random) {
  threads_[index]->state = State::kReady;
  ready_.push_back(index);
  std::swap(ready_.back(), ready_[random.below(ready_.size())]);
}

void Block::start(std::size_t count, Random& random) {
  count_ = count;
  arrived_.assign((count + kWarp - 1) / kWarp, 0);
  while (threads_.size() < count) {
    threads_.push_back(std::make_unique<Thread>());
    Thread& thread = *threads_.back();
    boost::context::fixedsize_stack stacks(kStack);
    const auto stack = stacks.allocate();
    thread.stack = static_cast<char*>(stack.sp) - stack.size;
    thread.context =
        fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack), stacks,
              [this](fiber&& caller) {
                enter(std::move(caller));
                return std::move(caller_);
              });
  }
  for (std::size_t i = 0; i < count; ++i) {
    threads_[i]->index = index_of(i);
    make_ready(i, random);
  }
}

void Block::enter(fiber&& caller) {
  caller_ = std::move(caller);
  __sanitizer_finish_switch_fiber(nullptr, &caller_stack_, &caller_stack_size_);
  while (true) {
    (*kernel_)();
    stop(State::kEnded);
  }
}

void Block::resume(std::size_t index) {
  running_ = index;
  Thread& thread = *threads_[index];
  here.thread = thread.index;
  __sanitizer_start_switch_fiber(&caller_fake_stack_, thread.stack, kStack);
  thread.context = std::move(thread.context).resume();
  __sanitizer_finish_switch_fiber(caller_fake_stack_, nullptr, nullptr);
}

void Block::stop(State state) {
  Thread& thread = *threads_[running_];
  thread.state = state;
  __sanitizer_start_switch_fiber(&thread.fake_stack, caller_stack_, caller_stack_size_);
  caller_ = std::move(caller_).resume();
  __sanitizer_finish_switch_fiber(thread.fake_stack, &caller_stack_, &caller_stack_size_);
}

void Block::arrive_at_warp(Random& random) {
  const std::size_t warp = running_ / kWarp;
  const std::size_t first = warp * kWarp;
  const std::size_t last = std::min(first + kWarp, count_);
  if (++arrived_[warp] < last - first) return;
  arrived_[warp] = 0;
  for (std::size_t i = first; i < last; ++i) make_ready(i, random);
}

bool Block::release_barrier(Random& random) {
  for (std::size_t i = 0; i < count_; ++i) {
    if (threads_[i]->state != State::kAtBarrier) return false;
  }
  for (std::size_t i = 0; i < count_; ++i) make_ready(i, random);
  return true;
}

void Block::report(const char* name) const {
  std::size_t at[4] = {};
  for (std::size_t i = 0; i < count_; ++i) ++at[static_cast<std::size_t>(threads_[i]->state)];
  std::fprintf(stderr,
               "kernel %s: not all of %zu threads reach a barrier: %zu wait at one of the block, "
               "%zu at one of their warp, %zu have ended\n",
               name, count_, at[1], at[2], at[3]);
  std::abort();
}

void Block::run(const char* name, const std::function<void()>& kernel, Random& random) {
  kernel_ = &kernel;
  start(std::size_t{blockDim.x} * blockDim.y * blockDim.z, random);
  std::size_t ended = 0;
  while (ended < count_) {
    if (ready_.empty() && !release_barrier(random)) report(name);
    const std::size_t index = ready_.back();
    ready_.pop_back();
    resume(index);
    if (threads_[index]->state == State::kEnded) ++ended;
    if (threads_[index]->state == State::kAtWarp) arrive_at_warp(random);
  }
}

}  // namespace

void run_block(const char* name, const std::function<void()>& kernel, Random& random) {
  block().run(name, kernel, random);
}
void stop_at_barrier() { block().stop(State::kAtBarrier); }
void stop_at_warp() { block().stop(State::kAtWarp); }
std::size_t this_thread() { return block().running(); }

}  // namespace cuda_host
