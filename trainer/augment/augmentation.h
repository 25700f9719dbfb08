#pragma once

#include <array>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "trainer/augment/flip.h"
#include "trainer/augment/normalise.h"
#include "trainer/augment/pad_crop.h"

namespace coxswain::augment {

// Value. One step of data.augment. Each is a file, which says
//   kName, kMeaning       its word, and its lines in docs/training-configuration.md;
//   visit_options         its options with their limits, for what reads and prints them;
//   problem(shape)        why it does not suit such images, or ""; 0 channels or a side of 0 are
//                         not known yet;
//   apply(image, random, scratch)   the image made in `scratch`, or `image` itself.
using Augmentation = std::variant<PadCrop, Flip, Normalise>;

template <class... Steps>
constexpr auto names_of(std::type_identity<std::variant<Steps...>>) {
  return std::array{Steps::kName...};
}
inline constexpr auto kNames = names_of(std::type_identity<Augmentation>{});

inline std::string_view name_of(const Augmentation& step) { return kNames[step.index()]; }

// What is wrong with a list for images of this shape.
std::vector<std::string> problems_of(const std::vector<Augmentation>& steps,
                                     const tensor::Shape& shape);

// The lists' meanings, as they stand in docs/training-configuration.md.
std::string meanings();

}  // namespace coxswain::augment
