#pragma once

#include <cstdint>
#include <vector>

#include "trainer/augment/image.h"

namespace coxswain::picture {

// Of one channel or three. Throw Error (70) when the library fails, which it has no cause to.
std::vector<std::uint8_t> encode_jpeg(const augment::Image& image, int quality);  // 1..100
std::vector<std::uint8_t> encode_png(const augment::Image& image);

}  // namespace coxswain::picture
