#include "trainer/backend/cuda/step_graphs.h"

#include <utility>

#include "trainer/contract/error.h"
#include "trainer/tensor/fnv1a.h"

namespace coxswain::backend::cuda {

void StepGraphs::begin(std::span<const std::int64_t> rows) {
  step_ = &steps_[{rows.begin(), rows.end()}];
  asked_ = 0;
  next_given_ = 0;
  if (!step_->was_eager) {
    mode_ = Mode::kEager;
  } else if (!graph().exec) {
    mode_ = Mode::kCapturing;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "recording a step");
  } else {
    mode_ = Mode::kReplaying;
    check(cudaEventSynchronize(graph().launched.get()), "waiting for the step before the last");
  }
}

GraphExec end_capture(cudaStream_t stream) {
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(stream, &captured), "ending a record");
  cudaGraphExec_t exec = nullptr;
  const cudaError_t result = cudaGraphInstantiate(&exec, captured, 0);
  cudaGraphDestroy(captured);
  check(result, "making a graph of a record");
  return GraphExec(exec);
}

void StepGraphs::capture() {
  graph().exec = end_capture(stream_);
  graph().asked = asked_;
  graph().launched = make_event();
}

void StepGraphs::end() {
  const Mode mode = std::exchange(mode_, Mode::kOutside);
  if (mode == Mode::kOutside) return;
  if (mode == Mode::kEager) {
    step_->was_eager = true;
    return;
  }
  if (mode == Mode::kCapturing) capture();
  if (asked_ != graph().asked || next_given_ != graph().given.size()) {
    throw Error(ExitCode::kInternal,
                "[cuda] a step asked for something else than the one that was recorded for it");
  }
  check(cudaGraphLaunch(graph().exec.get(), stream_), "launching a step");
  check(cudaEventRecord(graph().launched.get(), stream_), "marking a step");
  step_->turn = 1 - step_->turn;
}

bool StepGraphs::asks(std::initializer_list<std::uint64_t> what) {
  tensor::Fnv1a hash;
  const auto add = [&](std::uint64_t word) {
    hash.add(static_cast<std::uint32_t>(word));
    hash.add(static_cast<std::uint32_t>(word >> 32));
  };
  add(asked_);
  for (const std::uint64_t word : what) add(word);
  asked_ = hash.hash();
  return mode_ != Mode::kReplaying;
}

std::byte* StepGraphs::take(std::size_t bytes) {
  taken_bytes_ = bytes;
  if (!is_recorded()) return taken_ = staging().take(bytes);
  std::vector<PinnedMemory>& given = graph().given;
  if (mode_ == Mode::kCapturing) given.emplace_back(bytes);
  if (next_given_ >= given.size() || given[next_given_].size() != bytes) {
    throw Error(ExitCode::kInternal,
                "[cuda] a step gave something else than the one that was recorded for it");
  }
  return taken_ = given[next_given_++].data();
}

void StepGraphs::send(std::byte* to) {
  if (mode_ == Mode::kReplaying) return;
  check(cudaMemcpyAsync(to, taken_, taken_bytes_, cudaMemcpyHostToDevice, stream_),
        "copying to the device");
  if (!is_recorded()) staging().sent(stream_);
}

}  // namespace coxswain::backend::cuda
