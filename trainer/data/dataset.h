#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/augment/image.h"
#include "trainer/contract/error.h"

namespace coxswain::data {

// What a sample that is broken throws (65): others may be whole, and data.badSamples may pass it
// over.
class BadSample : public Error {
 public:
  explicit BadSample(const std::string& what) : Error(ExitCode::kBadInput, what) {}
};

// Resource. Labelled images with random access; reading is thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // (1, C, H, W) of all; of pictures that differ in size, of the first.
  virtual tensor::Shape sample_shape() const = 0;
  virtual std::int64_t classes() const = 0;
  virtual std::vector<std::string> class_names() const { return {}; }  // where they have names
  virtual std::int32_t label(std::int64_t id) const = 0;               // 0..classes-1
  // A hash of what the images are, made without decoding any: of their bytes where they lie in
  // memory, else of their files' names and sizes, and of some of them. 0: labels say all.
  virtual std::uint64_t content_hash() const { return 0; }
  // The image: of the dataset's own memory or made in `scratch`, valid as long as both. Throws
  // BadSample where it alone is broken.
  virtual augment::Image read(std::int64_t id, augment::Scratch& scratch) const = 0;
  // The file that it was, JPEG or PNG; nothing where it is stored otherwise. Throws as read does.
  virtual std::vector<std::uint8_t> stored(std::int64_t) const { return {}; }
  // What a class is called: its number where the data have no names.
  virtual std::string class_name(std::int32_t label) const { return std::to_string(label); }
  // Where it comes from, as messages show it.
  virtual std::string name(std::int64_t id) const { return "sample " + std::to_string(id); }
};

enum class Part { kTraining, kTest };

// The keys of the configuration that say where data lie, as messages name them.
inline constexpr std::string_view kPathKey = "data.path";
inline constexpr std::string_view kEvalPathKey = "data.evalPath";

// The formats. Each reads and checks everything at once and throws Error (65) with the file,
// the record and the offset; nothing is allocated beyond what the file's size allows.

// IDX files named as they were published, plain or .gz (magic 2051 and 2049); Fashion-MNIST is the
// same. `key`: that which named the directory.
std::unique_ptr<Dataset> open_mnist(const std::filesystem::path& directory, Part part,
                                    std::string_view key = kPathKey);

// data_batch_{1..5}.bin and test_batch.bin: records of 1 + 3072 bytes.
std::unique_ptr<Dataset> open_cifar10(const std::filesystem::path& directory, Part part,
                                      std::string_view key = kPathKey);

// How pictures are decoded.
struct PictureOptions {
  std::int64_t channels = 3;  // 1: grey
  bool apply_orientation = false;
  std::int64_t least_side = 0;    // decoded smaller, while both sides stay at least this; 0: never
  tensor::Shape raw{1, 0, 0, 0};  // records: what is no JPEG or PNG but (H, W, C) bytes; 0: none is
};

// JPEG and PNG files, read when they are asked for, of a folder for each class. `training` holds
// train/ and val/, or is the folder of the training images itself; `test`, if any, likewise.
std::unique_ptr<Dataset> open_image_folder(const std::filesystem::path& training,
                                           const std::filesystem::path& test, Part part,
                                           const PictureOptions& options);

// JPEG, PNG or raw images in MXNet's records, read when they are asked for: train.rec and val.rec
// in `training`, or the files that are named. Where a .idx stands beside, its records in its order.
std::unique_ptr<Dataset> open_records(const std::filesystem::path& training,
                                      const std::filesystem::path& test, Part part,
                                      const PictureOptions& options);

// The images of another, each channel as many times one after the other: grey ones as red, green
// and blue that are equal.
std::unique_ptr<Dataset> repeat_channels(std::unique_ptr<Dataset> dataset, std::int64_t times);

// The first `count` of another, or all where it has fewer.
std::unique_ptr<Dataset> first_of(std::unique_ptr<Dataset> dataset, std::int64_t count);

// Deterministic noise with a class-dependent mean, for benchmarks and tests: no files.
std::unique_ptr<Dataset> make_synthetic(tensor::Shape sample_shape, std::int64_t classes,
                                        std::int64_t size, std::uint64_t seed);

}  // namespace coxswain::data
