#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "trainer/augment/affine.h"
#include "trainer/augment/alternating_flip.h"
#include "trainer/augment/brightness.h"
#include "trainer/augment/centre_crop.h"
#include "trainer/augment/contrast.h"
#include "trainer/augment/cutmix.h"
#include "trainer/augment/cutout.h"
#include "trainer/augment/flip.h"
#include "trainer/augment/hsl.h"
#include "trainer/augment/mixup.h"
#include "trainer/augment/normalise.h"
#include "trainer/augment/pad_crop.h"
#include "trainer/augment/pca.h"
#include "trainer/augment/random_resized_crop.h"
#include "trainer/augment/resize.h"
#include "trainer/augment/saturation.h"

namespace coxswain::augment {

// Value. One step of data.augment. Each is a file, which says
//   kName, kMeaning       its word, and its lines in docs/training-configuration.md;
//   kMain                 if one option may stand alone, as in `resize: 256`: its name;
//   visit_options         its options with their limits, for what reads and prints them;
//   problem(shape)        why it does not suit such images, or ""; 0 channels or a side of 0 are
//                         not known yet;
//   result(shape)         the shape it makes of one, where that is another;
//   apply(image, random, scratch)   in training: the image made in `scratch`, or `image` itself;
//   settle(image, scratch)          without chance: in evaluation, and in training where there is
//                                   no apply; absent: the image as it is;
//   mix(shape, partner, random, image)   instead of both: in training, of two images one.
using Augmentation =
    std::variant<Resize, RandomResizedCrop, CentreCrop, PadCrop, Flip, AlternatingFlip, Affine, Hsl,
                 Brightness, Contrast, Saturation, Pca, Cutout, Mixup, Cutmix, Normalise>;

template <class... Steps>
constexpr auto names_of(std::type_identity<std::variant<Steps...>>) {
  return std::array{Steps::kName...};
}
inline constexpr auto kNames = names_of(std::type_identity<Augmentation>{});

inline std::string_view name_of(const Augmentation& step) { return kNames[step.index()]; }

// Whether it mixes an image with another one.
inline bool mixes(const Augmentation& step) {
  return std::holds_alternative<Mixup>(step) || std::holds_alternative<Cutmix>(step);
}
inline bool mixes(const std::vector<Augmentation>& steps) {
  return std::ranges::any_of(steps, [](const Augmentation& step) { return mixes(step); });
}

// What one step makes of images of this shape, and a whole list.
tensor::Shape result_of(const Augmentation& step, const tensor::Shape& shape);
tensor::Shape result_of(const std::vector<Augmentation>& steps, const tensor::Shape& shape);

// What is wrong with a list for images of this shape.
std::vector<std::string> problems_of(const std::vector<Augmentation>& steps,
                                     const tensor::Shape& shape);

// The lists' meanings, as they stand in docs/training-configuration.md.
std::string meanings();

}  // namespace coxswain::augment
