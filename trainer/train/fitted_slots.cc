#include "trainer/train/fitted_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>

#include "trainer/optim/update_rule.h"
#include "trainer/train/averaged_weights.h"

namespace coxswain::train {

namespace {

using checkpoint::NamedTensor;

std::vector<const tensor::Segment*> trained(const tensor::ParameterLayout& layout) {
  std::vector<const tensor::Segment*> segments;
  for (const tensor::Segment& segment : layout.segments)
    if (tensor::is_trainable(segment.kind)) segments.push_back(&segment);
  return segments;
}

// By slot: of how many of the tensors it is there.
std::map<std::string, std::size_t> count_slots(const std::vector<const tensor::Segment*>& segments,
                                               const std::vector<NamedTensor>& optimizer) {
  std::map<std::string, std::size_t> counts;
  for (const NamedTensor& tensor : optimizer) {
    const std::size_t dot = tensor.name.find('.');
    if (dot == std::string::npos) continue;
    const std::string_view of = std::string_view(tensor.name).substr(dot + 1);
    if (std::ranges::any_of(segments, [&](const auto* segment) { return segment->name == of; }))
      ++counts[tensor.name.substr(0, dot)];
  }
  return counts;
}

}  // namespace

void fit_slots(const tensor::ParameterLayout& layout, std::span<const std::string_view> slot_names,
               checkpoint::Contents& contents, std::vector<std::string>& notes) {
  const std::vector<const tensor::Segment*> segments = trained(layout);
  const auto saved = count_slots(segments, contents.optimizer);
  for (const auto& [slot, count] : saved) {
    if (count != segments.size() || std::ranges::find(slot_names, slot) != slot_names.end())
      continue;
    std::erase_if(contents.optimizer,
                  [&](const NamedTensor& tensor) { return tensor.name.starts_with(slot + "."); });
    notes.push_back(fmt::format("the optimizer keeps no {} any more", slot));
  }
  for (const std::string_view slot : slot_names) {
    if (saved.contains(std::string(slot))) continue;
    for (const tensor::Segment* segment : segments)
      contents.optimizer.push_back(
          {fmt::format("{}.{}", slot, segment->name), segment->dims,
           std::vector<float>(static_cast<std::size_t>(segment->elements()))});
    if (slot == optim::kAverageSlot) begin_averages(contents);
    notes.push_back(fmt::format("the optimizer's {} begins anew", slot));
  }
}

}  // namespace coxswain::train
