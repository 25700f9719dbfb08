#include <png.h>

#include <fmt/format.h>

#include <csetjmp>
#include <cstring>

#include "trainer/picture/formats.h"

namespace coxswain::picture {

namespace {

// What libpng's callbacks see. Nothing in it needs a destructor: errors leave by longjmp.
struct Reader {
  const std::uint8_t* next;
  std::size_t left;
  char problem[96] = "";
};

void read_some(png_structp png, png_bytep out, png_size_t count) {
  auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (count > reader->left) png_error(png, "ends too early");
  std::memcpy(out, reader->next, count);
  reader->next += count;
  reader->left -= count;
}

[[noreturn]] void fail(png_structp png, png_const_charp what) {
  auto* reader = static_cast<Reader*>(png_get_error_ptr(png));
  std::strncpy(reader->problem, what, sizeof(reader->problem) - 1);
  png_longjmp(png, 1);
}

void ignore(png_structp, png_const_charp) {}

// Frees what libpng holds, whichever way it is left.
struct Png {
  png_structp png = nullptr;
  png_infop info = nullptr;
  explicit Png(Reader& reader) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, fail, ignore);
    if (png != nullptr) info = png_create_info_struct(png);
  }
  ~Png() { png_destroy_read_struct(&png, &info, nullptr); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
};

// Whatever is stored becomes 8 bits a channel: one channel of grey, or three. Pillow leaves
// transparency out, and looks at no gamma.
void ask_for_bytes(png_structp png, png_infop info) {
  const int colour = png_get_color_type(png, info);
  if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if ((colour & PNG_COLOR_MASK_COLOR) == 0 && png_get_bit_depth(png, info) < 8) {
    png_set_expand_gray_1_2_4_to_8(png);
  }
  if (png_get_bit_depth(png, info) == 16) png_set_scale_16(png);
  png_set_strip_alpha(png);
}

// The header; false: `reader` says why not.
bool read_header(Png& file, Reader& reader) {
  if (setjmp(png_jmpbuf(file.png)) != 0) return false;
  png_set_read_fn(file.png, &reader, read_some);
  png_set_user_limits(file.png, 0x7fffffff, 0x7fffffff);  // kMostPixels is asked after
  png_set_chunk_cache_max(file.png, 64);
  png_set_chunk_malloc_max(file.png, 8 << 20);
  png_read_info(file.png, file.info);
  return true;
}

bool read_rows(Png& file, png_bytep first, std::size_t stride, png_uint_32 height, int passes) {
  if (setjmp(png_jmpbuf(file.png)) != 0) return false;
  for (int pass = 0; pass < passes; ++pass) {
    png_bytep row = first;
    for (png_uint_32 y = 0; y < height; ++y, row += stride) png_read_row(file.png, row, nullptr);
  }
  png_read_end(file.png, nullptr);
  return true;
}

int start_rows(Png& file, std::size_t& stride) {
  if (setjmp(png_jmpbuf(file.png)) != 0) return 0;
  ask_for_bytes(file.png, file.info);
  const int passes = png_set_interlace_handling(file.png);
  png_read_update_info(file.png, file.info);
  stride = png_get_rowbytes(file.png, file.info);
  return passes;
}

Decoded problem_of(const Reader& reader) {
  const std::string what = reader.problem[0] == '\0' ? "unknown" : reader.problem;
  return {.shape = {}, .problem = fmt::format("is a broken PNG: {}", what)};
}

void to_colours(augment::Scratch& pixels, std::size_t count) {
  pixels.resize(3 * count);
  for (std::size_t i = count; i-- > 0;) {
    const std::uint8_t value = pixels[i];
    for (std::size_t c = 3; c-- > 0;) pixels[3 * i + c] = value;
  }
}

}  // namespace

Decoded decode_png(std::span<const std::uint8_t> bytes, const DecodeOptions& options,
                   bool header_alone, augment::Scratch& pixels) {
  Reader reader{bytes.data(), bytes.size()};
  Png file(reader);
  if (file.info == nullptr) return problem_of(reader);
  if (!read_header(file, reader)) return problem_of(reader);
  const std::int64_t width = png_get_image_width(file.png, file.info);
  const std::int64_t height = png_get_image_height(file.png, file.info);
  Decoded decoded{.shape = {1, options.channels, height, width},
                  .problem = size_problem(height, width)};
  if (header_alone || !decoded.problem.empty()) return decoded;
  std::size_t stride = 0;
  const int passes = start_rows(file, stride);
  if (passes == 0) return problem_of(reader);
  const auto count = static_cast<std::size_t>(height * width);
  const std::size_t stored = stride / static_cast<std::size_t>(width);
  pixels.resize(count * stored);
  if (!read_rows(file, pixels.data(), stride, static_cast<png_uint_32>(height), passes))
    return problem_of(reader);
  if (stored == 3 && options.channels == 1) to_grey(pixels, count);
  if (stored == 1 && options.channels == 3) to_colours(pixels, count);
  pixels.resize(count * static_cast<std::size_t>(options.channels));
  return decoded;
}

}  // namespace coxswain::picture
