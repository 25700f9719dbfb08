#include <fmt/format.h>

#include <cassert>
#include <utility>

#include "trainer/contract/error.h"
#include "trainer/data/dataset.h"
#include "trainer/data/file_bytes.h"
#include "trainer/data/idx.h"
#include "trainer/tensor/fnv1a.h"

namespace coxswain::data {

namespace {

constexpr std::int64_t kClasses = 10;

class IdxDataset : public Dataset {
 public:
  IdxDataset(IdxFile images, IdxFile labels)
      : images_(std::move(images)), labels_(std::move(labels)) {}

  std::int64_t size() const override { return images_.count; }
  tensor::Shape sample_shape() const override { return {1, 1, images_.rows, images_.columns}; }
  std::int64_t classes() const override { return kClasses; }
  augment::Image read(std::int64_t id, augment::Scratch&) const override {
    assert(id >= 0 && id < size());
    return {sample_shape(), images_.record(id)};
  }
  std::int32_t label(std::int64_t id) const override {
    assert(id >= 0 && id < size());
    return labels_.record(id)[0];
  }
  std::uint64_t content_hash() const override {
    tensor::Fnv1a hash;
    hash.add_bytes(images_.bytes);
    return hash.hash();
  }

 private:
  IdxFile images_;
  IdxFile labels_;
};

std::filesystem::path find_file(const std::filesystem::path& directory, const std::string& name,
                                std::string_view key) {
  const std::filesystem::path plain = directory / name;
  if (is_present(plain)) return plain;
  const std::filesystem::path compressed = directory / (name + ".gz");
  if (is_present(compressed)) return compressed;
  throw Error(
      ExitCode::kBadInput,
      fmt::format("[data] {}: neither {} nor {}.gz is there; set {} to the directory that holds "
                  "them",
                  shown(directory), name, name, key));
}

void check_labels(const IdxFile& labels, const std::filesystem::path& file) {
  for (std::int64_t i = 0; i < labels.count; ++i) {
    const int label = labels.record(i)[0];
    if (label < kClasses) continue;
    throw Error(ExitCode::kBadInput, fmt::format("[data] {}: record {}: label {}, expected 0..{}",
                                                 shown(file), i, label, kClasses - 1));
  }
}

}  // namespace

std::unique_ptr<Dataset> open_mnist(const std::filesystem::path& directory, Part part,
                                    std::string_view key) {
  const std::string prefix = part == Part::kTraining ? "train" : "t10k";
  require_directory(directory, prefix + "-images-idx3-ubyte[.gz]", key);
  const auto images_file = find_file(directory, prefix + "-images-idx3-ubyte", key);
  const auto labels_file = find_file(directory, prefix + "-labels-idx1-ubyte", key);
  IdxFile images = parse_idx(read_file(images_file), IdxKind::kImages, images_file);
  IdxFile labels = parse_idx(read_file(labels_file), IdxKind::kLabels, labels_file);
  if (images.count != labels.count) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[data] {}: {} holds {} images, {} {} labels", shown(directory),
                            shown(images_file.filename()), images.count,
                            shown(labels_file.filename()), labels.count));
  }
  check_labels(labels, labels_file);
  return std::make_unique<IdxDataset>(std::move(images), std::move(labels));
}

}  // namespace coxswain::data
