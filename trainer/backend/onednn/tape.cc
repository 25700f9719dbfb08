#include "trainer/backend/onednn/tape.h"

#include <algorithm>

namespace coxswain::backend::onednn {

namespace {

// Vector code may read a few elements past the end of a tensor, never write there.
constexpr std::int64_t kSlack = 64;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

int Tape::new_buffer(std::int64_t bytes) {
  lifetimes_.push_back({bytes + kSlack, -1, -1});
  return static_cast<int>(lifetimes_.size()) - 1;
}

Tensor Tape::new_tensor(const Desc& desc) {
  return view(desc, new_buffer(static_cast<std::int64_t>(desc.get_size())));
}

Tensor Tape::view(const Desc& desc, int buffer, std::int64_t offset) {
  const dnnl::memory memory(desc, engine_, DNNL_MEMORY_NONE);
  views_.push_back({memory, buffer, offset});
  return {desc, memory, buffer};
}

Tensor Tape::outside(const Desc& desc, void* data) const {
  return {desc, dnnl::memory(desc, engine_, data), -1};
}

void Tape::touch_at(int buffer, int operation) {
  if (buffer < 0) return;
  graph::Lifetime& lifetime = lifetimes_[at(buffer)];
  if (lifetime.first < 0) lifetime.first = operation;
  lifetime.last = std::max(lifetime.last, operation);
}

void Tape::touch(int buffer) { touch_at(buffer, static_cast<int>(operations_.size())); }

void Tape::begin_step() { step_ends_.push_back(static_cast<int>(operations_.size())); }

void Tape::end_step(const std::vector<int>& written) {
  step_ends_.back() = static_cast<int>(operations_.size());
  const int last = std::max(0, static_cast<int>(operations_.size()) - 1);
  for (const int buffer : written) touch_at(buffer, last);
}

void Tape::add(const dnnl::primitive& primitive, const Desc& scratchpad,
               std::vector<Argument> arguments) {
  if (scratchpad.get_size() > 0) arguments.push_back({DNNL_ARG_SCRATCHPAD, new_tensor(scratchpad)});
  Operation operation;
  operation.primitive = primitive;
  for (const Argument& argument : arguments) {
    touch(argument.tensor.buffer);
    operation.memories.push_back(argument.tensor.memory);
    operation.arguments.push_back({argument.id, operation.memories.back().get()});
  }
  append(std::move(operation));
}

void Tape::add(const std::vector<int>& buffers, Loop loop) {
  for (const int buffer : buffers) touch(buffer);
  Operation operation;
  operation.loop = std::move(loop);
  append(std::move(operation));
}

void Tape::append(Operation operation) {
  operation.condition = condition_;
  operation.wanted = wanted_;
  operations_.push_back(std::move(operation));
}

std::int64_t Tape::finish() {
  for (graph::Lifetime& lifetime : lifetimes_) lifetime.first = std::max(lifetime.first, 0);
  for (graph::Lifetime& lifetime : lifetimes_)
    lifetime.last = std::max(lifetime.last, lifetime.first);
  plan_ = graph::plan_memory(lifetimes_);
  addresses_.addresses_.resize(lifetimes_.size());
  return plan_.bytes;
}

void Tape::bind(std::byte* arena) {
  for (std::size_t i = 0; i < plan_.offsets.size(); ++i) {
    addresses_.addresses_[i] = arena + plan_.offsets[i];
  }
  for (View& view : views_)
    view.memory.set_data_handle(addresses_.bytes(view.buffer) + view.offset);
}

void Tape::run(int step) {
  const int first = step == 0 ? 0 : step_ends_[at(step - 1)];
  for (int i = first; i < step_ends_[at(step)]; ++i) {
    const Operation& operation = operations_[at(i)];
    if (operation.condition != nullptr && *operation.condition != operation.wanted) continue;
    if (operation.loop) {
      operation.loop(addresses_);
      continue;
    }
    dnnl::error::wrap_c_api(dnnl_primitive_execute(operation.primitive.get(), stream_.get(),
                                                   static_cast<int>(operation.arguments.size()),
                                                   operation.arguments.data()),
                            "a oneDNN primitive failed to execute");
  }
}

}  // namespace coxswain::backend::onednn
