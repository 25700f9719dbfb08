#include "trainer/backend/cuda/optimizer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "trainer/backend/cuda/orthogonaliser.h"
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

// Resource. Values on the device. They stay on the host too, where a copy under way reads them.
template <typename T>
class Table {
 public:
  Table(const std::vector<T>& values, const Queue& queue) {
    if (values.empty()) return;
    host_ = PinnedMemory(values.size() * sizeof(T));
    device_ = DeviceMemory(host_.size(), "a map of the parameters");
    std::memcpy(host_.data(), values.data(), host_.size());
    check(cudaMemcpyAsync(device_.data(), host_.data(), host_.size(), cudaMemcpyHostToDevice,
                          queue.stream),
          "copying to the device");
  }
  const T* data() const { return reinterpret_cast<const T*>(device_.data()); }

 private:
  PinnedMemory host_;
  DeviceMemory device_;
};

template <typename T>
T* as(const DeviceMemory& memory) {
  return reinterpret_cast<T*>(memory.data());
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

// What is no matrix, at the step's rate.
void update_rest(const Queue& queue, const optim::UpdateRule& rule, const Verdict* verdict,
                 FlatBuffer buffer) {
  buffer.rates = nullptr;
  cuda::update(queue, rule, verdict, buffer);
}

// The weights stay as they are, and their average.
void update_moments(const Queue& queue, optim::UpdateRule rule, const Verdict* verdict,
                    FlatBuffer buffer) {
  rule.rounds_to_half = false;
  buffer.average = nullptr;
  cuda::update(queue, rule, verdict, buffer);
}

}  // namespace

// What a rule needs of one layout, on the device.
struct Optimizer::Map {
  Map(const tensor::ParameterLayout& layout_, const optim::UpdateRule& rule, const UpdatePlan& plan,
      Shared& shared)
      : layout(layout_),
        kind(rule.kind),
        scope(rule.decay_scope),
        num_tensors(std::ssize(plan.tensors)),
        num_pieces(std::ssize(plan.pieces)),
        changes(plan.changes, shared.queue),
        tensor_of(plan.tensor_of, shared.queue),
        tensors(plan.tensors, shared.queue),
        pieces(plan.pieces, shared.queue),
        squares(doubles(partial_squares(layout.size()))),
        partial(doubles(kSumsOfPiece * num_pieces)),
        rates(plan.tensors.size() * sizeof(float), "the rates of tensors") {
    if (kind == OptimizerKind::kMuon && num_tensors > 0)
      orthogonaliser = std::make_unique<Orthogonaliser>(layout, shared.products, shared.queue);
  }

  bool is_of(const tensor::ParameterLayout& another, const optim::UpdateRule& rule) const {
    return kind == rule.kind && scope == rule.decay_scope && layout == another;
  }
  void describe(FlatBuffer& buffer) const {
    buffer.changes = changes.data();
    buffer.tensor_of = tensor_of.data();
    buffer.rates = as<float>(rates);
    if (orthogonaliser) buffer.directions = orthogonaliser->directions();
  }
  RatedTensors all_tensors() const {
    return {tensors.data(), pieces.data(), num_tensors, num_pieces, as<double>(partial)};
  }

  tensor::ParameterLayout layout;
  OptimizerKind kind;
  DecayScope scope;
  std::int64_t num_tensors;
  std::int64_t num_pieces;
  Table<Change> changes;
  Table<std::int32_t> tensor_of;
  Table<RatedTensor> tensors;
  Table<Piece> pieces;
  DeviceMemory squares;  // partial sums of gradients
  DeviceMemory partial;  // sums of pieces
  DeviceMemory rates;
  std::unique_ptr<Orthogonaliser> orthogonaliser;  // Muon's

 private:
  static DeviceMemory doubles(std::int64_t count) {
    return {static_cast<std::size_t>(count) * sizeof(double), "the norms of parameters"};
  }
};

Optimizer::Optimizer(Shared& shared) : shared_(shared) {
  check(cudaMemsetAsync(verdict_.data(), 0, verdict_.size(), shared_.stream.get()),
        "clearing device memory");
}

Optimizer::~Optimizer() = default;

const Optimizer::Map& Optimizer::map_of(const Parameters& parameters,
                                        const optim::UpdateRule& rule) {
  const tensor::ParameterLayout& layout = parameters.layout();
  const auto found =
      std::ranges::find_if(maps_, [&](const Map& map) { return map.is_of(layout, rule); });
  if (found != maps_.end()) return *found;
  return maps_.emplace_back(layout, rule, plan_update(layout, rule.kind, rule.decay_scope),
                            shared_);
}

void Optimizer::update(const optim::UpdateRule& rule, const optim::LearningRate& rate,
                       float statistic_parts, Parameters& parameters) {
  const tensor::Segment& control = parameters.layout().control();
  const Map& map = map_of(parameters, rule);
  const UpdateInputs inputs{rate.lr, rate.momentum, statistic_parts};
  const bool enqueues =
      shared_.steps.asks({kUpdate, std::bit_cast<std::uint64_t>(&parameters), hash_of(rule)});
  std::memcpy(shared_.steps.take(sizeof(inputs)), &inputs, sizeof(inputs));
  shared_.steps.send(inputs_.data());
  if (!enqueues) return;
  FlatBuffer buffer = buffer_of(parameters, rule.ema_decay > 0);
  map.describe(buffer);
  auto* verdict = as<Verdict>(verdict_);
  const Queue& queue = shared_.queue;
  find_not_finite(queue, buffer.gradients, buffer.size, verdict);
  if (rule.clip_norm > 0) sum_squares(queue, buffer, as<double>(map.squares), verdict);
  decide(queue, as<const UpdateInputs>(inputs_), rule.clip_norm,
         device_span(parameters.gradients(control)).data(),
         device_span(parameters.weights(control)).data(), verdict);
  follow(rule, map, verdict, buffer);
}

void Optimizer::follow(const optim::UpdateRule& rule, const Map& map, const Verdict* verdict,
                       const FlatBuffer& buffer) const {
  const Queue& queue = shared_.queue;
  const RatedTensors tensors = map.all_tensors();
  if (tensors.count == 0) return cuda::update(queue, rule, verdict, buffer);
  if (rule.kind == OptimizerKind::kLars) {
    find_rates(queue, rule, verdict, buffer, tensors);
    return cuda::update(queue, rule, verdict, buffer);
  }
  if (rule.kind == OptimizerKind::kMuon) {
    update_rest(queue, rule, verdict, buffer);
    find_directions(queue, rule, verdict, buffer, tensors);
    map.orthogonaliser->run(queue);
    return follow_muon(queue, rule, verdict, buffer, tensors);
  }
  update_moments(queue, rule, verdict, buffer);
  find_rates(queue, rule, verdict, buffer, tensors);
  follow_lamb(queue, rule, verdict, buffer);
}

}  // namespace coxswain::backend::cuda
