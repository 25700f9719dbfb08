#include "trainer/data/cifar10.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>
#include <vector>

#include "trainer/contract/error.h"
#include "trainer/data/dataset.h"
#include "trainer/data/file_bytes.h"
#include "trainer/tensor/fnv1a.h"

namespace coxswain::data {

namespace {

using Batches = std::vector<std::vector<std::uint8_t>>;

// Keeps the files, with the channels of a pixel together.
class CifarDataset : public Dataset {
 public:
  explicit CifarDataset(Batches batches) : batches_(std::move(batches)) {
    augment::Scratch planes(kCifarPixels);
    for (auto& batch : batches_) {
      size_ += records(batch);
      for (std::size_t at = 1; at < batch.size(); at += kCifarRecord) {
        const std::span<std::uint8_t> image = std::span(batch).subspan(at, kCifarPixels);
        std::ranges::copy(image, planes.begin());
        augment::interleave(planes, sample_shape(), image);
      }
    }
  }

  std::int64_t size() const override { return size_; }
  tensor::Shape sample_shape() const override {
    return {1, kCifarChannels, kCifarSide, kCifarSide};
  }
  std::int64_t classes() const override { return kCifarClasses; }
  augment::Image read(std::int64_t id, augment::Scratch&) const override {
    return {sample_shape(), record(id).subspan(1)};
  }
  std::int32_t label(std::int64_t id) const override { return record(id)[0]; }
  std::uint64_t content_hash() const override {
    tensor::Fnv1a hash;
    for (const auto& batch : batches_) hash.add_bytes(batch);
    return hash.hash();
  }

 private:
  static std::int64_t records(const std::vector<std::uint8_t>& batch) {
    return static_cast<std::int64_t>(batch.size() / kCifarRecord);
  }

  std::span<const std::uint8_t> record(std::int64_t id) const {
    assert(id >= 0 && id < size_);
    std::size_t file = 0;
    while (id >= records(batches_[file])) id -= records(batches_[file++]);
    return std::span(batches_[file])
        .subspan(static_cast<std::size_t>(id) * kCifarRecord, kCifarRecord);
  }

  Batches batches_;
  std::int64_t size_ = 0;
};

std::vector<std::string> file_names(Part part) {
  if (part == Part::kTest) return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
          "data_batch_5.bin"};
}

}  // namespace

void check_cifar10(std::span<const std::uint8_t> content, const std::filesystem::path& file) {
  if (content.empty()) refuse(file, fmt::format("0 bytes, records of {} expected", kCifarRecord));
  const std::size_t records = content.size() / kCifarRecord;
  if (const std::size_t rest = content.size() % kCifarRecord; rest != 0) {
    refuse(file, fmt::format("ends in record {}: {} of {} bytes; copy it anew, or is it not "
                             "CIFAR-10's binary version?",
                             records, rest, kCifarRecord));
  }
  for (std::size_t i = 0; i < records; ++i) {
    const int label = content[i * kCifarRecord];
    if (label < kCifarClasses) continue;
    refuse(file, fmt::format("record {}: label {}, expected 0..{}", i, label, kCifarClasses - 1));
  }
}

std::unique_ptr<Dataset> open_cifar10(const std::filesystem::path& directory, Part part,
                                      std::string_view key) {
  const std::vector<std::string> names = file_names(part);
  require_directory(directory, names.front(), key);
  const std::filesystem::path unpacked = directory / "cifar-10-batches-bin";
  const std::filesystem::path root = is_present(unpacked) ? unpacked : directory;
  Batches batches;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::filesystem::path file = root / names[i];
    if (!is_present(file)) {
      refuse(root, fmt::format("{} is missing (file {} of {}); set {} to the directory with "
                               "CIFAR-10's binary version",
                               names[i], i + 1, names.size(), key));
    }
    batches.push_back(read_file(file));
    check_cifar10(batches.back(), file);
  }
  return std::make_unique<CifarDataset>(std::move(batches));
}

}  // namespace coxswain::data
