#include "trainer/backend/cuda/tape.h"

#include <algorithm>

namespace coxswain::backend::cuda {

void Arena::reserve(std::int64_t bytes) {
  const auto wanted = static_cast<std::size_t>(bytes);
  if (wanted <= memory_.size()) return;
  memory_ = {};  // first: both at once may be too much
  memory_ = DeviceMemory(wanted, "the activations of a step");
  ++generation_;
}

int Tape::new_buffer(std::int64_t bytes, DataType type) {
  addresses_.types_.push_back(type);
  lifetimes_.push_back({bytes, -1, -1});
  return static_cast<int>(lifetimes_.size()) - 1;
}

void Tape::touch_at(int buffer, int work) {
  if (buffer < 0) return;
  graph::Lifetime& lifetime = lifetimes_[static_cast<std::size_t>(buffer)];
  if (lifetime.first < 0) lifetime.first = work;
  lifetime.last = std::max(lifetime.last, work);
}

void Tape::touch(int buffer) { touch_at(buffer, static_cast<int>(work_.size())); }

void Tape::end_step(const std::vector<int>& written) {
  step_ends_.push_back(static_cast<int>(work_.size()));
  const int last = std::max(0, static_cast<int>(work_.size()) - 1);
  for (const int buffer : written) touch_at(buffer, last);
}

void Tape::add(const std::vector<int>& buffers, Work work) {
  for (const int buffer : buffers) touch(buffer);
  work_.push_back(std::move(work));
}

std::int64_t Tape::finish() {
  for (graph::Lifetime& lifetime : lifetimes_) {
    lifetime.first = std::max(lifetime.first, 0);
    lifetime.last = std::max(lifetime.last, lifetime.first);
  }
  graph::MemoryPlan plan = graph::plan_memory(lifetimes_);
  addresses_.offsets_ = std::move(plan.offsets);
  return plan.bytes;
}

void Tape::run(int step) const {
  const int first = step == 0 ? 0 : step_ends_[static_cast<std::size_t>(step - 1)];
  for (int i = first; i < step_ends_[static_cast<std::size_t>(step)]; ++i)
    work_[static_cast<std::size_t>(i)](addresses_);
}

}  // namespace coxswain::backend::cuda
