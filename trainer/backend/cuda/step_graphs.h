#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <vector>

#include "trainer/backend/cuda/device.h"

namespace coxswain::backend::cuda {

struct DestroyGraph {
  void operator()(cudaGraphExec_t exec) const { cudaGraphExecDestroy(exec); }
};
using GraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyGraph>;

// Ends what is captured on `stream`.
GraphExec end_capture(cudaStream_t stream);

// Resource. Steps as CUDA graphs. The first step of some rows is enqueued as it is asked for, the
// next two are captured and launched at their end; from then on nothing is enqueued in between, and
// the two graphs are launched in turn, each with what the host gave this time. So the host may be a
// step ahead of the device. Outside a step everything is enqueued at once.
class StepGraphs {
 public:
  explicit StepGraphs(cudaStream_t stream) : stream_(stream) {}

  void begin(std::span<const std::int64_t> rows);
  // Throws Error when a step asked for something else than the one that was captured.
  void end();
  // To be called when memory that a graph names may be gone.
  void forget() { steps_.clear(); }

  // Whether what is asked is to be enqueued. `what` says it: the same words in each step.
  bool asks(std::initializer_list<std::uint64_t> what);
  // Whether a step is under way that the host may not ask for anything.
  bool is_recorded() const { return mode_ == Mode::kCapturing || mode_ == Mode::kReplaying; }

  // Pinned memory for `bytes` that go to the device: filled by the caller, then sent. Of what is
  // large, as batches are, there are two.
  std::byte* take(std::size_t bytes);
  void send(std::byte* to);

 private:
  enum class Mode { kOutside, kEager, kCapturing, kReplaying };
  struct Graph {
    GraphExec exec;
    std::vector<PinnedMemory> given;  // goes first, and waits for what is launched
    std::uint64_t asked = 0;
    Event launched;
  };
  struct Step {
    bool was_eager = false;
    std::array<Graph, 2> graphs;
    std::size_t turn = 0;
  };

  Graph& graph() { return step_->graphs[step_->turn]; }
  void capture();

  Staging& staging() { return taken_bytes_ > kLarge ? large_ : small_; }

  static constexpr std::size_t kLarge = std::size_t{64} << 10;
  cudaStream_t stream_;
  Staging small_{8};
  Staging large_{2};
  Mode mode_ = Mode::kOutside;
  std::map<std::vector<std::int64_t>, Step> steps_;  // by rows
  Step* step_ = nullptr;
  std::uint64_t asked_ = 0;
  std::size_t next_given_ = 0;
  std::byte* taken_ = nullptr;
  std::size_t taken_bytes_ = 0;
};

}  // namespace coxswain::backend::cuda
