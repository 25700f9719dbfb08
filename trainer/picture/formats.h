#pragma once

#include "trainer/picture/decode.h"

// The formats, each behind its library. What `decode` and `measure` promise; `header_alone`: no
// pixels are made.
namespace coxswain::picture {

Decoded decode_jpeg(std::span<const std::uint8_t> bytes, const DecodeOptions& options,
                    bool header_alone, augment::Scratch& pixels);
Decoded decode_png(std::span<const std::uint8_t> bytes, const DecodeOptions& options,
                   bool header_alone, augment::Scratch& pixels);

// Why a picture of this size is not read; empty: it is.
std::string size_problem(std::int64_t height, std::int64_t width);

// `count` pixels of red, green and blue to one of grey each, in place: Pillow's convert("L").
void to_grey(augment::Scratch& pixels, std::size_t count);

}  // namespace coxswain::picture
