// picture_bench make DIR COUNT: a folder of JPEGs of 500 x 375, in two classes.
// picture_bench measure DIR ROUNDS: images a second of one thread, by its CPU time: libjpeg-turbo's
// decode alone, and ours with random-resized-crop to 224 and flip; rounds in turns, one JSON line.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <cstdio>
// libjpeg's header needs stdio's
#include <jpeglib.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "trainer/data/file_bytes.h"
#include "trainer/data/preprocessor.h"
#include "trainer/data/dataset.h"
#include "trainer/picture/encode.h"

namespace {

namespace fs = std::filesystem;
using namespace coxswain;

// Waves and a little noise: about as many bytes a pixel as photographs have.
std::vector<std::uint8_t> picture(std::uint64_t seed, std::int64_t height, std::int64_t width) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::array<double, 12> waves{};
  for (double& wave : waves) wave = uniform(random);
  std::vector<std::uint8_t> pixels;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        const double fx = 0.3 * waves[4 * c] * static_cast<double>(x);
        const double fy = 0.3 * waves[4 * c + 1] * static_cast<double>(y);
        const double wave =
            std::sin(fx + 6 * waves[4 * c + 2]) * std::cos(fy) + std::sin(0.1 * fx * fy);
        pixels.push_back(static_cast<std::uint8_t>(127 + 45 * wave + 20 * uniform(random)));
      }
    }
  }
  return pixels;
}

void make(const fs::path& directory, int count) {
  const tensor::Shape shape{1, 3, 375, 500};
  for (int i = 0; i < count; ++i) {
    const fs::path file =
        directory / "train" / (i % 2 == 0 ? "a" : "b") / fmt::format("{:05}.jpg", i);
    fs::create_directories(file.parent_path());
    const auto pixels = picture(static_cast<std::uint64_t>(i), shape.h, shape.w);
    data::write_whole(file, picture::encode_jpeg({shape, pixels}, 90));
  }
}

double cpu_seconds() {
  struct rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// As tjbench does, by the library's own interface.
void decode_alone(const std::vector<std::uint8_t>& bytes, std::vector<std::uint8_t>& pixels) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, bytes.data(), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  const std::size_t line = std::size_t{3} * info.output_width;
  pixels.resize(line * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels.data() + line * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
}

template <class Work>
double rate(std::int64_t images, Work work) {
  const double start = cpu_seconds();
  for (std::int64_t id = 0; id < images; ++id) work(id);
  return static_cast<double>(images) / (cpu_seconds() - start);
}

void measure(const fs::path& directory, int rounds) {
  const auto dataset = data::open_image_folder(directory, {}, data::Part::kTraining, {});
  data::Preprocessor preprocessor({augment::RandomResizedCrop{}, augment::Flip{}},
                                  dataset->sample_shape(), true);
  std::vector<std::uint8_t> out(static_cast<std::size_t>(preprocessor.result().per_sample()));
  std::vector<std::uint8_t> pixels;
  augment::Scratch scratch;
  std::vector<double> alone;
  std::vector<double> ours;
  for (int round = 0; round < rounds; ++round) {
    alone.push_back(
        rate(dataset->size(), [&](std::int64_t id) { decode_alone(dataset->stored(id), pixels); }));
    ours.push_back(rate(dataset->size(), [&](std::int64_t id) {
      preprocessor.run({42, id, round}, dataset->read(id, scratch), out);
    }));
  }
  fmt::print("{{\"decodeAlone\":[{:.1f}],\"ours\":[{:.1f}]}}\n", fmt::join(alone, ","),
             fmt::join(ours, ","));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 3 && arguments[0] == "make") {
    make(arguments[1], std::stoi(arguments[2]));
  } else if (arguments.size() == 3 && arguments[0] == "measure") {
    measure(arguments[1], std::stoi(arguments[2]));
  } else {
    fmt::print(stderr, "picture_bench make DIR COUNT | measure DIR ROUNDS\n");
    return 64;
  }
  return 0;
}
