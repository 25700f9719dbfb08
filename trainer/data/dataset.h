#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "trainer/augment/image.h"

namespace coxswain::data {

// Resource. Labelled images with random access; reading is thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual tensor::Shape sample_shape() const = 0;  // (1, C, H, W)
  virtual std::int64_t classes() const = 0;
  virtual std::int32_t label(std::int64_t id) const = 0;  // 0..classes-1
  // The image: of the dataset's own memory or made in `scratch`, valid as long as both.
  virtual augment::Image read(std::int64_t id, augment::Scratch& scratch) const = 0;
};

enum class Part { kTraining, kTest };

// The formats. Each reads and checks everything at once and throws Error (65) with the file,
// the record and the offset; nothing is allocated beyond what the file's size allows.

// IDX files named as they were published, plain or .gz (magic 2051 and 2049); Fashion-MNIST is the
// same.
std::unique_ptr<Dataset> open_mnist(const std::filesystem::path& directory, Part part);

// data_batch_{1..5}.bin and test_batch.bin: records of 1 + 3072 bytes.
std::unique_ptr<Dataset> open_cifar10(const std::filesystem::path& directory, Part part);

// The images of another, each channel as many times one after the other: grey ones as red, green
// and blue that are equal.
std::unique_ptr<Dataset> repeat_channels(std::unique_ptr<Dataset> dataset, std::int64_t times);

// Deterministic noise with a class-dependent mean, for benchmarks and tests: no files.
std::unique_ptr<Dataset> make_synthetic(tensor::Shape sample_shape, std::int64_t classes,
                                        std::int64_t size, std::uint64_t seed);

}  // namespace coxswain::data
