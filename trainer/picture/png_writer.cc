#include <png.h>

#include <fmt/format.h>

#include "trainer/contract/error.h"
#include "trainer/picture/encode.h"

namespace coxswain::picture {

std::vector<std::uint8_t> encode_png(const augment::Image& image) {
  png_image out{};
  out.version = PNG_IMAGE_VERSION;
  out.width = static_cast<png_uint_32>(image.shape.w);
  out.height = static_cast<png_uint_32>(image.shape.h);
  out.format = image.shape.c == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(out);
  std::vector<std::uint8_t> bytes(size);
  if (png_image_write_to_memory(&out, bytes.data(), &size, 0, image.bytes.data(), 0, nullptr) == 0)
    throw Error(ExitCode::kInternal, fmt::format("[picture] cannot write a PNG: {}", out.message));
  bytes.resize(size);
  return bytes;
}

}  // namespace coxswain::picture
