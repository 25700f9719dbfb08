#include <fmt/format.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>

#include "trainer/contract/error.h"
#include "trainer/picture/encode.h"

namespace coxswain::picture {

namespace {

struct Writer {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf leave;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  Writer() = default;
  ~Writer() {
    jpeg_destroy_compress(&info);
    std::free(bytes);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
};

[[noreturn]] void give_up(j_common_ptr info) {
  std::longjmp(static_cast<Writer*>(info->client_data)->leave, 1);
}

bool write(Writer& writer, const augment::Image& image, int quality) {
  if (setjmp(writer.leave) != 0) return false;
  jpeg_compress_struct& info = writer.info;
  info.err = jpeg_std_error(&writer.errors);
  writer.errors.error_exit = give_up;
  info.client_data = &writer;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &writer.bytes, &writer.size);
  info.image_width = static_cast<JDIMENSION>(image.shape.w);
  info.image_height = static_cast<JDIMENSION>(image.shape.h);
  info.input_components = static_cast<int>(image.shape.c);
  info.in_color_space = image.shape.c == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  const std::int64_t stride = image.shape.w * image.shape.c;
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(image.bytes.data() + info.next_scanline * stride);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

}  // namespace

std::vector<std::uint8_t> encode_jpeg(const augment::Image& image, int quality) {
  Writer writer;
  if (!write(writer, image, quality)) {
    throw Error(ExitCode::kInternal, fmt::format("[picture] cannot write a JPEG of {}x{}",
                                                 image.shape.w, image.shape.h));
  }
  return {writer.bytes, writer.bytes + writer.size};
}

}  // namespace coxswain::picture
