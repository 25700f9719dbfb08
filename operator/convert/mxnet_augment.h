#pragma once

#include "operator/convert/script.h"

// What the image-classification scripts of MXNet are told of pictures.
namespace coxswain::convert {

// Under these names their options are kept.
inline constexpr char kCrop[] = "crop";
inline constexpr char kFlip[] = "flip";
inline constexpr char kPad[] = "pad";
inline constexpr char kFill[] = "fill";
inline constexpr char kHue[] = "hue";
inline constexpr char kSaturationShift[] = "saturationShift";
inline constexpr char kLightness[] = "lightness";
inline constexpr char kRotate[] = "rotate";
inline constexpr char kShear[] = "shear";
inline constexpr char kAspect[] = "aspect";
inline constexpr char kSmallest[] = "smallest";
inline constexpr char kLargest[] = "largest";
inline constexpr char kResizedCrop[] = "resizedCrop";
inline constexpr char kBrightness[] = "brightness";
inline constexpr char kContrast[] = "contrast";
inline constexpr char kSaturation[] = "saturation";
inline constexpr char kPca[] = "pca";
inline constexpr char kMean[] = "mean";
inline constexpr char kDeviation[] = "deviation";

// training.data.augment, in the order in which their reader of records makes it; `size`: of a side
// of what it hands out.
void set_augmentation(Draft& draft, int size);

}  // namespace coxswain::convert
