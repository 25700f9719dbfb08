#include "trainer/backend/cuda/optimizer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "trainer/backend/cuda/update_plan.h"
#include "trainer/tensor/device_span.h"
#include "trainer/tensor/fnv1a.h"

namespace coxswain::backend::cuda {

using tensor::device_span;

namespace {

constexpr std::uint64_t kUpdate = 301;  // word of a step

std::uint64_t hash_of(const optim::UpdateRule& rule) {
  tensor::Fnv1a hash;
  for (const auto choice :
       {static_cast<std::uint32_t>(rule.kind), static_cast<std::uint32_t>(rule.form),
        static_cast<std::uint32_t>(rule.decay_scope), static_cast<std::uint32_t>(rule.centered),
        static_cast<std::uint32_t>(rule.rounds_to_half)})
    hash.add(choice);
  for (const float value :
       {rule.weight_decay, rule.beta1, rule.beta2, rule.epsilon, rule.eta, rule.statistic_momentum,
        rule.clip_norm, rule.clip_value, rule.ema_decay})
    hash.add(std::bit_cast<std::uint32_t>(value));
  return hash.hash();
}

// On the device, once what is enqueued is done; the pinned memory is given back after that.
template <typename T>
DeviceMemory to_device(const std::vector<T>& values, const char* what, const Queue& queue) {
  const std::size_t bytes = values.size() * sizeof(T);
  DeviceMemory on_device(bytes, what);
  const PinnedMemory host(bytes);
  std::memcpy(host.data(), values.data(), bytes);
  check(cudaMemcpyAsync(on_device.data(), host.data(), bytes, cudaMemcpyHostToDevice, queue.stream),
        "copying to the device");
  return on_device;
}

FlatBuffer buffer_of(const Parameters& parameters, bool has_average) {
  FlatBuffer buffer{.weights = device_span(parameters.weights()).data(),
                    .gradients = device_span(parameters.gradients()).data(),
                    .slots = {},
                    .size = parameters.layout().size()};
  const int slots = parameters.num_slots() - (has_average ? 1 : 0);
  for (int slot = 0; slot < slots; ++slot)
    buffer.slots[static_cast<std::size_t>(slot)] = device_span(parameters.slot(slot)).data();
  if (has_average) buffer.average = device_span(parameters.slot(slots)).data();
  return buffer;
}

}  // namespace

// What a rule needs of one layout, on the device.
struct Optimizer::Map {
  tensor::ParameterLayout layout;
  DecayScope scope;
  DeviceMemory changes;
  DeviceMemory squares;  // partial sums
};

Optimizer::Optimizer(Shared& shared) : shared_(shared) {
  check(cudaMemsetAsync(verdict_.data(), 0, verdict_.size(), shared_.stream.get()),
        "clearing device memory");
}

Optimizer::~Optimizer() = default;

const Optimizer::Map& Optimizer::map_of(const Parameters& parameters, DecayScope scope) {
  const tensor::ParameterLayout& layout = parameters.layout();
  const auto found = std::ranges::find_if(
      maps_, [&](const Map& map) { return map.scope == scope && map.layout == layout; });
  if (found != maps_.end()) return *found;
  const UpdatePlan plan = plan_update(layout, scope);
  const auto sums = static_cast<std::size_t>(partial_squares(layout.size()));
  return maps_.emplace_back(layout, scope,
                            to_device(plan.changes, "a map of the parameters", shared_.queue),
                            DeviceMemory(sums * sizeof(double), "the norm of the gradients"));
}

void Optimizer::update(const optim::UpdateRule& rule, const optim::LearningRate& rate,
                       float statistic_parts, Parameters& parameters) {
  const tensor::Segment& control = parameters.layout().control();
  const Map& map = map_of(parameters, rule.decay_scope);
  const UpdateInputs inputs{rate.lr, rate.momentum, statistic_parts};
  const bool enqueues =
      shared_.steps.asks({kUpdate, std::bit_cast<std::uint64_t>(&parameters), hash_of(rule)});
  std::memcpy(shared_.steps.take(sizeof(inputs)), &inputs, sizeof(inputs));
  shared_.steps.send(inputs_.data());
  if (!enqueues) return;
  FlatBuffer buffer = buffer_of(parameters, rule.ema_decay > 0);
  buffer.changes = reinterpret_cast<const Change*>(map.changes.data());
  auto* verdict = reinterpret_cast<Verdict*>(verdict_.data());
  const Queue& queue = shared_.queue;
  find_not_finite(queue, buffer.gradients, buffer.size, verdict);
  if (rule.clip_norm > 0)
    sum_squares(queue, buffer, reinterpret_cast<double*>(map.squares.data()), verdict);
  decide(queue, reinterpret_cast<const UpdateInputs*>(inputs_.data()), rule.clip_norm,
         device_span(parameters.gradients(control)).data(),
         device_span(parameters.weights(control)).data(), verdict);
  cuda::update(queue, rule, verdict, buffer);
}

}  // namespace coxswain::backend::cuda
