#include "trainer/data/preprocessor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "trainer/contract/error.h"

namespace coxswain::data {

namespace {

const Preprocessing& checked(const Preprocessing& steps, const tensor::Shape& sample) {
  const auto problems = augment::problems_of(steps, sample);
  if (problems.empty()) return steps;
  throw Error(ExitCode::kBadInput, fmt::format("[data] augment: {}", problems.front()));
}

const augment::Normalise* normalisation(const Preprocessing& steps) {
  return steps.empty() ? nullptr : std::get_if<augment::Normalise>(&steps.back());
}

}  // namespace

Preprocessor::Preprocessor(const Preprocessing& steps, const tensor::Shape& sample, bool training)
    : table_(augment::pixel_table(normalisation(checked(steps, sample)), sample.c)) {
  if (!training) return;
  std::array<int, augment::kNames.size()> seen{};
  for (const augment::Augmentation& step : steps) {
    std::string name(augment::name_of(step));
    if (const int before = seen[step.index()]++; before > 0) name += fmt::format("#{}", before);
    steps_.push_back({step, tensor::stream_of(name)});
  }
}

void Preprocessor::run(const augment::SampleKey& key, augment::Image image,
                       std::span<std::uint8_t> out) {
  assert(out.size() == image.bytes.size());
  std::size_t free = 0;
  for (const Step& step : steps_) {
    augment::Scratch& scratch = scratch_[free];
    image = std::visit(
        [&](const auto& augmentation) {
          if constexpr (requires { augmentation.apply(image, {}, scratch); }) {
            return augmentation.apply(image, {key, step.stream}, scratch);
          } else {
            return image;
          }
        },
        step.augmentation);
    if (image.bytes.data() == scratch.data()) free = 1 - free;
  }
  std::ranges::copy(image.bytes, out.begin());
}

}  // namespace coxswain::data
