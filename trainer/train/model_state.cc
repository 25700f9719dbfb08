#include "trainer/train/model_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <map>
#include <memory>

#include "trainer/contract/printable.h"
#include "trainer/graph/initialise.h"
#include "trainer/tensor/fnv1a.h"

namespace coxswain::train {

namespace {

using checkpoint::NamedTensor;
using tensor::ParameterLayout;
using tensor::Segment;
using tensor::SegmentKind;

constexpr std::size_t kMostCharacters = 80;  // of a name in a message

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

// A tensor of the checkpoint and the place where its values belong.
struct Destination {
  const NamedTensor* tensor;
  const Segment* segment;
  std::span<float> stored;
};

class TensorTable {
 public:
  explicit TensorTable(const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& tensor : tensors) by_name_[tensor.name] = &tensor;
  }

  const NamedTensor& take(const std::string& name, const Segment& segment) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) {
      throw Error(ExitCode::kBadInput, fmt::format("[checkpoint] tensor \"{}\" is missing", name));
    }
    const NamedTensor& tensor = *found->second;
    if (tensor.dims != segment.dims) {
      throw Error(ExitCode::kBadInput,
                  fmt::format("[checkpoint] tensor \"{}\": file {}, model {}", name,
                              fmt::join(tensor.dims, "x"), fmt::join(segment.dims, "x")));
    }
    by_name_.erase(found);
    return tensor;
  }

  void expect_empty() const {
    if (by_name_.empty()) return;
    throw Error(ExitCode::kBadInput,
                fmt::format("[checkpoint] tensor \"{}\" is not part of this model",
                            printable(by_name_.begin()->first, kMostCharacters)));
  }

 private:
  std::map<std::string, const NamedTensor*> by_name_;
};

}  // namespace

void initialise(const graph::Program& training, std::uint64_t seed, backend::Backend& backend,
                tensor::ParameterBuffer& parameters) {
  for (const graph::Parameter& parameter : training.parameters) {
    const Segment& segment =
        parameters.layout()
            .segments[static_cast<std::size_t>(*parameters.layout().find(parameter.name))];
    std::vector<float> canonical(static_cast<std::size_t>(segment.elements()));
    graph::initialise(parameter, seed, canonical);
    backend.from_canonical(segment, canonical, parameters.weights(segment));
  }
}

std::function<checkpoint::Contents()> snapshot(const checkpoint::State& state,
                                               backend::Backend& backend,
                                               tensor::ParameterBuffer& parameters,
                                               std::span<const std::string_view> slot_names) {
  struct Copy {
    checkpoint::State state;
    ParameterLayout layout;
    std::vector<float> weights;
    std::vector<std::vector<float>> slots;
    std::span<const std::string_view> slot_names;
  };
  auto copy = std::make_shared<Copy>();
  copy->state = state;
  copy->layout = parameters.layout();
  copy->weights.assign(parameters.weights().begin(), parameters.weights().end());
  for (int i = 0; i < parameters.num_slots(); ++i) {
    copy->slots.emplace_back(parameters.slot(i).begin(), parameters.slot(i).end());
  }
  copy->slot_names = slot_names;
  return [copy, &backend] {
    checkpoint::Contents contents;
    contents.state = copy->state;
    for (const Segment& segment : copy->layout.segments) {
      if (!is_stored(segment)) continue;
      contents.model.push_back(to_tensor(backend, segment, copy->weights, ""));
      if (!tensor::is_trainable(segment.kind)) continue;
      for (std::size_t i = 0; i < copy->slots.size(); ++i) {
        contents.optimizer.push_back(
            to_tensor(backend, segment, copy->slots[i], fmt::format("{}.", copy->slot_names[i])));
      }
    }
    return contents;
  };
}

void restore(const checkpoint::Contents& contents, backend::Backend& backend,
             tensor::ParameterBuffer& parameters, std::span<const std::string_view> slot_names) {
  TensorTable model(contents.model);
  TensorTable optimizer(contents.optimizer);
  std::vector<Destination> destinations;
  for (const Segment& segment : parameters.layout().segments) {
    if (!is_stored(segment)) continue;
    destinations.push_back(
        {&model.take(segment.name, segment), &segment, parameters.weights(segment)});
    if (!tensor::is_trainable(segment.kind)) continue;
    for (std::size_t i = 0; i < slot_names.size(); ++i) {
      const std::string name = fmt::format("{}.{}", slot_names[i], segment.name);
      destinations.push_back({&optimizer.take(name, segment), &segment,
                              parameters.slot(static_cast<int>(i), segment)});
    }
  }
  model.expect_empty();
  if (!slot_names.empty()) optimizer.expect_empty();
  for (const Destination& d : destinations) {
    backend.from_canonical(*d.segment, d.tensor->values, d.stored);
  }
}

void broadcast_parameters(comm::Communicator& communicator, backend::Backend& backend,
                          tensor::ParameterBuffer& parameters) {
  if (communicator.size() == 1) return;
  std::vector<float> canonical;
  const auto exchange = [&](const Segment& segment, std::span<float> stored) {
    canonical.resize(static_cast<std::size_t>(segment.elements()));
    backend.to_canonical(segment, stored, canonical);
    communicator.broadcast(std::as_writable_bytes(std::span(canonical)), 0);
    backend.from_canonical(segment, canonical, stored);
  };
  for (const Segment& segment : parameters.layout().segments) {
    if (!is_stored(segment)) continue;
    exchange(segment, parameters.weights(segment));
    for (int i = 0; i < parameters.num_slots(); ++i) exchange(segment, parameters.slot(i, segment));
  }
}

std::uint64_t hash_of_weights(backend::Backend& backend, tensor::ParameterBuffer& parameters) {
  tensor::Fnv1a hash;
  std::vector<float> canonical;
  for (const Segment& segment : parameters.layout().segments) {
    if (!is_stored(segment)) continue;
    canonical.resize(static_cast<std::size_t>(segment.elements()));
    backend.to_canonical(segment, parameters.weights(segment), canonical);
    for (const float value : canonical) hash.add(std::bit_cast<std::uint32_t>(value));
  }
  return hash.hash();
}

}  // namespace coxswain::train
