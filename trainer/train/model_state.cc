#include "trainer/train/model_state.h"

#include <fmt/format.h>

#include <bit>
#include <memory>

#include "trainer/backend/control.h"
#include "trainer/graph/initialise.h"
#include "trainer/tensor/fnv1a.h"
#include "trainer/train/residuals.h"
#include "trainer/train/tensor_table.h"

namespace coxswain::train {

namespace {

using checkpoint::NamedTensor;
using tensor::ParameterLayout;
using tensor::Segment;
using tensor::SegmentKind;

bool is_stored(const Segment& segment) { return segment.kind != SegmentKind::kControl; }

std::span<const float> slice(std::span<const float> all, const Segment& segment) {
  return all.subspan(static_cast<std::size_t>(segment.offset),
                     static_cast<std::size_t>(segment.stored));
}

NamedTensor to_tensor(backend::Backend& backend, const Segment& segment, std::span<const float> all,
                      const std::string& prefix) {
  NamedTensor tensor{prefix + segment.name, segment.dims, {}};
  tensor.values.resize(static_cast<std::size_t>(segment.elements()));
  backend.to_canonical(segment, slice(all, segment), tensor.values);
  return tensor;
}

// Values of a tensor and the place where they belong.
struct Destination {
  std::span<const float> canonical;
  const Segment* segment;
  tensor::Slice stored;
};

void write_canonical(backend::Backend& backend, const backend::Parameters& parameters,
                     const Destination& to) {
  std::vector<float> stored(static_cast<std::size_t>(to.segment->stored));
  backend.from_canonical(*to.segment, to.canonical, stored);
  parameters.memory().write(stored, to.stored);
}

std::vector<float> read_canonical(backend::Backend& backend, const backend::Parameters& parameters,
                                  const Segment& segment, const tensor::Slice& stored) {
  std::vector<float> canonical(static_cast<std::size_t>(segment.elements()));
  backend.to_canonical(segment, parameters.memory().snapshot(stored)(), canonical);
  return canonical;
}

}  // namespace

std::vector<std::string_view> slot_names(const TrainOptions& options) {
  const optim::Schedule& schedule = options.schedule;
  return optim::slot_names(options.rule, schedule.momentum > 0 || schedule.cycle_momentum);
}

void initialise(const graph::Program& training, std::uint64_t seed, backend::Backend& backend,
                const backend::Parameters& parameters) {
  std::vector<float> canonical;
  for (const graph::Parameter& parameter : training.parameters) {
    const Segment& segment =
        parameters.layout()
            .segments[static_cast<std::size_t>(*parameters.layout().find(parameter.name))];
    canonical.resize(static_cast<std::size_t>(segment.elements()));
    graph::initialise(parameter, seed, canonical);
    write_canonical(backend, parameters, {canonical, &segment, parameters.weights(segment)});
  }
}

std::function<checkpoint::Contents()> snapshot(backend::Backend& backend,
                                               const backend::Parameters& parameters,
                                               std::vector<std::string_view> slot_names) {
  struct Copy {
    ParameterLayout layout;
    tensor::Memory::Snapshot weights;
    std::vector<tensor::Memory::Snapshot> slots;
    std::vector<std::string_view> slot_names;
  };
  auto copy = std::make_shared<Copy>();
  copy->layout = parameters.layout();
  copy->weights = parameters.memory().snapshot(parameters.weights());
  for (int i = 0; i < parameters.num_slots(); ++i) {
    copy->slots.push_back(parameters.memory().snapshot(parameters.slot(i)));
  }
  copy->slot_names = std::move(slot_names);
  return [copy, &backend] {
    const std::vector<float> weights = copy->weights();
    std::vector<std::vector<float>> slots;
    for (const auto& slot : copy->slots) slots.push_back(slot());
    checkpoint::Contents contents;
    for (const Segment& segment : copy->layout.segments) {
      if (!is_stored(segment)) continue;
      contents.model.push_back(to_tensor(backend, segment, weights, ""));
      if (!tensor::is_trainable(segment.kind)) continue;
      for (std::size_t i = 0; i < slots.size(); ++i) {
        contents.optimizer.push_back(
            to_tensor(backend, segment, slots[i], fmt::format("{}.", copy->slot_names[i])));
      }
    }
    return contents;
  };
}

void restore(const checkpoint::Contents& contents, backend::Backend& backend,
             const backend::Parameters& parameters, std::span<const std::string_view> slot_names) {
  TensorTable model(contents.model, [](const NamedTensor&) { return true; });
  TensorTable optimizer(contents.optimizer, [](const NamedTensor& t) { return !is_residual(t); });
  std::vector<Destination> destinations;
  for (const Segment& segment : parameters.layout().segments) {
    if (!is_stored(segment)) continue;
    destinations.push_back(
        {model.take(segment.name, segment).values, &segment, parameters.weights(segment)});
    if (!tensor::is_trainable(segment.kind)) continue;
    for (std::size_t i = 0; i < slot_names.size(); ++i) {
      const std::string name = fmt::format("{}.{}", slot_names[i], segment.name);
      destinations.push_back({optimizer.take(name, segment).values, &segment,
                              parameters.slot(static_cast<int>(i), segment)});
    }
  }
  model.expect_empty();
  if (!slot_names.empty()) optimizer.expect_empty();
  for (const Destination& d : destinations) {
    write_canonical(backend, parameters, d);
  }
  backend::write_update_count(contents.state.update_count, parameters);
}

void broadcast_parameters(comm::Communicator& communicator, backend::Backend& backend,
                          const backend::Parameters& parameters) {
  if (communicator.size() == 1) return;
  const auto exchange = [&](const Segment& segment, const tensor::Slice& stored) {
    std::vector<float> canonical = read_canonical(backend, parameters, segment, stored);
    communicator.broadcast(std::as_writable_bytes(std::span(canonical)), 0);
    write_canonical(backend, parameters, {canonical, &segment, stored});
  };
  for (const Segment& segment : parameters.layout().segments) {
    exchange(segment, parameters.weights(segment));  // with the count of updates
    if (!is_stored(segment)) continue;
    for (int i = 0; i < parameters.num_slots(); ++i) exchange(segment, parameters.slot(i, segment));
  }
}

std::uint64_t hash_of_weights(backend::Backend& backend, const backend::Parameters& parameters) {
  tensor::Fnv1a hash;
  for (const Segment& segment : parameters.layout().segments) {
    if (!is_stored(segment)) continue;
    for (const float value :
         read_canonical(backend, parameters, segment, parameters.weights(segment)))
      hash.add(std::bit_cast<std::uint32_t>(value));
  }
  return hash.hash();
}

}  // namespace coxswain::train
