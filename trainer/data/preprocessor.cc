#include "trainer/data/preprocessor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "trainer/contract/error.h"
#include "trainer/data/dataset.h"

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

augment::Image run_step(const augment::Augmentation& step, bool training,
                        const augment::Random& random, const augment::Image& image,
                        augment::Scratch& scratch) {
  return std::visit(
      [&](const auto& augmentation) {
        if constexpr (requires { augmentation.apply(image, random, scratch); }) {
          if (training) return augmentation.apply(image, random, scratch);
        }
        if constexpr (requires { augmentation.settle(image, scratch); }) {
          return augmentation.settle(image, scratch);
        }
        return image;
      },
      step);
}

std::string size_of(const tensor::Shape& shape) { return fmt::format("{}x{}", shape.w, shape.h); }

void require_suitable(const augment::Augmentation& step, const tensor::Shape& shape) {
  const auto ask = [&](const auto& augmentation) { return augmentation.problem(shape); };
  const std::string problem = std::visit(ask, step);
  if (!problem.empty()) throw BadSample(fmt::format("of {}: {}", size_of(shape), problem));
}

}  // namespace

Preprocessor::Preprocessor(const Preprocessing& steps, const tensor::Shape& sample, bool training)
    : sample_(sample),
      result_(augment::result_of(checked(steps, sample), sample)),
      training_(training),
      table_(augment::pixel_table(normalisation(steps), sample.c)) {
  std::array<int, augment::kNames.size()> seen{};
  for (const augment::Augmentation& step : steps) {
    std::string name(augment::name_of(step));
    if (const int before = seen[step.index()]++; before > 0) name += fmt::format("#{}", before);
    const bool is_mixer = augment::mixes(step);
    if (is_mixer && !training) continue;
    (is_mixer ? mixers_ : steps_).push_back({step, tensor::stream_of(name)});
  }
}

void Preprocessor::run(const augment::SampleKey& key, augment::Image image,
                       std::span<std::uint8_t> out) {
  const bool is_usual = image.shape == sample_;
  const tensor::Shape stored = image.shape;
  std::size_t free = 0;
  for (const Step& step : steps_) {
    if (!is_usual) require_suitable(step.augmentation, image.shape);
    augment::Scratch& scratch = scratch_[free];
    image = run_step(step.augmentation, training_, {key, step.stream}, image, scratch);
    if (image.bytes.data() == scratch.data()) free = 1 - free;
  }
  if (image.shape != result_) {
    throw BadSample(
        fmt::format("of {} becomes {}, and the network takes {}; begin data.augment "
                    "with random-resized-crop, or resize and centre-crop",
                    size_of(stored), size_of(image.shape), size_of(result_)));
  }
  assert(out.size() == image.bytes.size());
  std::ranges::copy(image.bytes, out.begin());
}

float Preprocessor::mix(const augment::SampleKey& key, std::span<const std::uint8_t> partner,
                        std::span<std::uint8_t> image) const {
  const augment::Random choice{key, tensor::stream_of("mix")};
  const auto chosen = augment::place(choice.words()[0], std::ssize(mixers_));
  const Step& step = mixers_[static_cast<std::size_t>(chosen)];
  return std::visit(
      [&](const auto& mixer) {
        if constexpr (requires { mixer.mix(result_, partner, augment::Random{}, image); })
          return mixer.mix(result_, partner, {key, step.stream}, image);
        return 1.0F;
      },
      step.augmentation);
}

}  // namespace coxswain::data
