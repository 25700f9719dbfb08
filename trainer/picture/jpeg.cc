#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>

#include <jerror.h>

#include "trainer/picture/exif.h"
#include "trainer/picture/formats.h"

namespace coxswain::picture {

namespace {

constexpr int kMostScans = 500;  // a bomb is progressive, of thousands of scans over all pixels

// libjpeg's state and what its callbacks find. Errors leave by longjmp: nothing between a setjmp
// and a call of the library has a destructor.
struct Jpeg {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf leave;
  bool ends_early = false;
  char problem[JMSG_LENGTH_MAX] = "";

  Jpeg();
  ~Jpeg() { jpeg_destroy_decompress(&info); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;
};

Jpeg& of(j_common_ptr info) { return *static_cast<Jpeg*>(info->client_data); }

[[noreturn]] void leave(Jpeg& jpeg, const char* why) {
  std::strncpy(jpeg.problem, why, sizeof(jpeg.problem) - 1);
  std::longjmp(jpeg.leave, 1);
}

[[noreturn]] void fail(j_common_ptr info) {
  char text[JMSG_LENGTH_MAX];
  info->err->format_message(info, text);
  leave(of(info), text);
}

// A warning: the end came too early, which libjpeg fills with grey; others it recovers from, as
// everybody does who reads the same files.
void warn(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) leave(of(info), "ends too early");
}

void be_silent(j_common_ptr) {}

void count_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMostScans)
    leave(of(info), "has too many scans");
}

Jpeg::Jpeg() {
  info.err = jpeg_std_error(&errors);
  errors.error_exit = fail;
  errors.emit_message = warn;
  errors.output_message = be_silent;
  progress.progress_monitor = count_scans;
}

Decoded problem_of(const Jpeg& jpeg) {
  const bool early = std::strcmp(jpeg.problem, "ends too early") == 0;
  return {.shape = {},
          .problem = early ? std::string("is a JPEG that ends too early")
                           : fmt::format("is a broken JPEG: {}", jpeg.problem)};
}

bool read_header(Jpeg& jpeg, std::span<const std::uint8_t> bytes, bool with_exif) {
  if (setjmp(jpeg.leave) != 0) return false;
  jpeg.info.client_data = &jpeg;
  jpeg_create_decompress(&jpeg.info);
  jpeg.info.progress = &jpeg.progress;
  jpeg_mem_src(&jpeg.info, bytes.data(), bytes.size());
  if (with_exif) jpeg_save_markers(&jpeg.info, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&jpeg.info, TRUE);
  return true;
}

int orientation(const Jpeg& jpeg) {
  for (auto* marker = jpeg.info.marker_list; marker != nullptr; marker = marker->next) {
    const int value = orientation_of({marker->data, marker->data_length});
    if (value != 1) return value;
  }
  return 1;
}

// Pillow's: grey as it is; four inks are inverted, as Adobe writes them.
void choose_colours(Jpeg& jpeg, std::int64_t channels) {
  jpeg_decompress_struct& info = jpeg.info;
  if (info.num_components == 4) {
    info.out_color_space = JCS_CMYK;
  } else if (info.num_components == 1) {
    info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  } else {
    info.out_color_space = JCS_RGB;
  }
}

// The smallest of 1/8 .. 8/8 whose sides are long enough.
void choose_scale(Jpeg& jpeg, std::int64_t least_side) {
  if (least_side <= 0) return;
  jpeg_decompress_struct& info = jpeg.info;
  const std::int64_t side = std::min<std::int64_t>(info.image_width, info.image_height);
  info.scale_denom = 8;
  info.scale_num = 8;
  for (const unsigned eighths : {4U, 2U, 1U}) {
    if (side * eighths / 8 < least_side) break;
    info.scale_num = eighths;
  }
}

bool start(Jpeg& jpeg, const DecodeOptions& options) {
  if (setjmp(jpeg.leave) != 0) return false;
  choose_colours(jpeg, options.channels);
  choose_scale(jpeg, options.least_side);
  jpeg.info.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&jpeg.info);
  return true;
}

bool read_rows(Jpeg& jpeg, std::uint8_t* first, std::size_t stride) {
  if (setjmp(jpeg.leave) != 0) return false;
  jpeg_decompress_struct& info = jpeg.info;
  while (info.output_scanline < info.output_height) {
    JSAMPROW rows[4];
    for (JDIMENSION i = 0; i < 4; ++i) rows[i] = first + (info.output_scanline + i) * stride;
    jpeg_read_scanlines(&info, rows, std::min(4U, info.output_height - info.output_scanline));
  }
  jpeg_finish_decompress(&info);
  return true;
}

std::uint8_t product(int a, int b) {  // a * b / 255, rounded: Pillow's MULDIV255
  const int t = a * b + 128;
  return static_cast<std::uint8_t>(((t >> 8) + t) >> 8);
}

// Pillow's cmyk2rgb of inverted inks.
void inks_to_colours(augment::Scratch& pixels, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* from = pixels.data() + 4 * i;
    const int black = 255 - from[3];
    const std::array<int, 3> inks{255 - from[0], 255 - from[1], 255 - from[2]};
    for (std::size_t c = 0; c < 3; ++c) {
      const int light = 255 - black;
      pixels[3 * i + c] = static_cast<std::uint8_t>(light - product(inks[c], light));
    }
  }
}

void turn_upright(Decoded& decoded, int orientation, augment::Scratch& pixels) {
  augment::Scratch turned(pixels.size());
  turn(pixels, decoded.shape.h, decoded.shape.w, decoded.shape.c, orientation, turned);
  pixels.swap(turned);
  if (orientation >= 5) std::swap(decoded.shape.h, decoded.shape.w);
}

}  // namespace

Decoded decode_jpeg(std::span<const std::uint8_t> bytes, const DecodeOptions& options,
                    bool header_alone, augment::Scratch& pixels) {
  Jpeg jpeg;
  if (!read_header(jpeg, bytes, options.apply_orientation)) return problem_of(jpeg);
  const int turned = options.apply_orientation ? orientation(jpeg) : 1;
  Decoded decoded{.shape = {1, options.channels, jpeg.info.image_height, jpeg.info.image_width},
                  .problem = size_problem(jpeg.info.image_height, jpeg.info.image_width)};
  if (header_alone && turned >= 5) std::swap(decoded.shape.h, decoded.shape.w);
  if (header_alone || !decoded.problem.empty()) return decoded;
  if (!start(jpeg, options)) return problem_of(jpeg);
  decoded.shape.h = jpeg.info.output_height;
  decoded.shape.w = jpeg.info.output_width;
  const auto count = static_cast<std::size_t>(decoded.shape.h * decoded.shape.w);
  const auto stored = static_cast<std::size_t>(jpeg.info.output_components);
  pixels.resize(count * std::max<std::size_t>(stored, static_cast<std::size_t>(options.channels)));
  const std::size_t stride = static_cast<std::size_t>(decoded.shape.w) * stored;
  if (!read_rows(jpeg, pixels.data(), stride)) return problem_of(jpeg);
  if (stored == 4) inks_to_colours(pixels, count);
  if (stored != 1 && options.channels == 1) to_grey(pixels, count);
  pixels.resize(count * static_cast<std::size_t>(options.channels));
  if (turned != 1) turn_upright(decoded, turned, pixels);
  return decoded;
}

}  // namespace coxswain::picture
