#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"
#include "trainer/data/dataset.h"
#include "trainer/data/file_bytes.h"
#include "trainer/data/folder_index.h"
#include "trainer/picture/decode.h"
#include "trainer/tensor/fnv1a.h"

namespace coxswain::data {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kFirstOnes = 100;   // of which one at least must say how large it is
constexpr std::int64_t kReadWhole = 64;    // for the hash of all
constexpr std::int64_t kAskedAnew = 1024;  // of a volume that takes a millisecond to answer

picture::DecodeOptions decode_options(const PictureOptions& options) {
  return {.channels = options.channels,
          .apply_orientation = options.apply_orientation,
          .least_side = options.least_side};
}

class ImageFolder final : public Dataset {
 public:
  // `opened`: when listing began, at the latest.
  ImageFolder(fs::path root, FolderIndex index, const PictureOptions& options, std::int64_t opened)
      : root_(std::move(root)),
        index_(std::move(index)),
        options_(decode_options(options)),
        opened_(opened) {
    shape_ = shape_of_first();
  }

  std::int64_t size() const override { return index_.size(); }
  tensor::Shape sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return std::ssize(index_.classes()); }
  // As checkpoints keep them, and compare them on a resume.
  std::vector<std::string> class_names() const override {
    std::vector<std::string> names;
    std::ranges::transform(index_.classes(), std::back_inserter(names), well_formed);
    return names;
  }
  std::int32_t label(std::int64_t id) const override { return index_.label(id); }
  std::string class_name(std::int32_t label) const override {
    return index_.classes()[static_cast<std::size_t>(label)];
  }
  std::string name(std::int64_t id) const override { return shown(path(id)); }

  // An older list may not know of a file that was written over in place: some are asked anew, and a
  // few of those read.
  std::uint64_t content_hash() const override {
    tensor::Fnv1a hash;
    const std::int64_t every = (size() + kAskedAnew - 1) / kAskedAnew;
    const std::int64_t every_read = (size() + kReadWhole - 1) / kReadWhole;
    for (std::int64_t id = 0; id < size(); ++id) {
      hash.add_long(tensor::fnv1a(index_.path(id)));
      std::error_code failed;  // reading it says what
      const std::uint64_t bytes =
          id % every == 0 ? fs::file_size(path(id), failed) : index_.stamp(id).bytes;
      hash.add_long(bytes);
      if (id % every_read == 0) hash.add_bytes(content_of(path(id)).bytes);
    }
    return hash.hash();
  }

  std::vector<std::uint8_t> stored(std::int64_t id) const override { return content(id); }

  augment::Image read(std::int64_t id, augment::Scratch& scratch) const override {
    const picture::Decoded decoded = picture::decode(content(id), options_, scratch);
    if (!decoded.problem.empty()) throw BadSample(decoded.problem);
    return {decoded.shape, scratch};
  }

 private:
  fs::path path(std::int64_t id) const { return root_ / index_.path(id); }

  // A file that is gone or may not be read is a bad sample; a volume that fails is more, and so is
  // another content than the run began with. One that an older list tells otherwise about, but that
  // nobody touched since the run opened its data, was changed before, and is as it should be.
  std::vector<std::uint8_t> content(std::int64_t id) const {
    FileContent content = content_of(path(id));
    if (!content.problem.empty()) throw BadSample(content.problem);
    if (content.stamp != index_.stamp(id) && content.changed >= opened_) {
      throw Error(ExitCode::kBadInput,
                  fmt::format("[data] {}: has changed since the run began; start it anew, and "
                              "leave its pictures as they are",
                              name(id)));
    }
    return std::move(content.bytes);
  }

  tensor::Shape shape_of_first() const {
    std::string problem;
    for (std::int64_t id = 0; id < std::min(size(), kFirstOnes); ++id) {
      try {
        const picture::Decoded decoded = picture::measure(content(id), options_);
        if (decoded.problem.empty()) return decoded.shape;
        if (problem.empty()) problem = fmt::format("{}: {}", name(id), decoded.problem);
      } catch (const BadSample& bad) {
        if (problem.empty()) problem = fmt::format("{}: {}", name(id), bad.what());
      }
    }
    throw Error(ExitCode::kBadInput, fmt::format("[data] {}", problem));
  }

  const fs::path root_;
  const FolderIndex index_;
  const picture::DecodeOptions options_;
  const std::int64_t opened_;
  tensor::Shape shape_;
};

fs::path training_root(const fs::path& path) {
  require_directory(path, "train/ and val/", kPathKey);
  return is_present(path / "train") ? path / "train" : path;
}

fs::path test_root(const fs::path& training, const fs::path& test) {
  if (!test.empty()) {
    require_directory(test, "the test images", kEvalPathKey);
    return is_present(test / "val") ? test / "val" : test;
  }
  if (is_present(training / "val")) return training / "val";
  throw Error(ExitCode::kBadInput,
              fmt::format("[data] {}: no val/ is there; set data.evalPath to the folder of the "
                          "test images",
                          shown(training)));
}

void require_two_classes(const fs::path& root, const std::vector<std::string>& classes) {
  if (classes.size() > 1) return;
  throw Error(ExitCode::kBadInput,
              fmt::format("[data] {}: holds one folder alone, {}; a folder for each of two classes "
                          "or more is expected: is data.path one level too high?",
                          shown(root), shown(classes.front())));
}

// Labels are places among the classes: they mean the same where the names are the same.
void require_same_classes(const fs::path& training_root, const std::vector<std::string>& training,
                          const fs::path& root, const std::vector<std::string>& classes) {
  const auto only_in = [](const auto& some, const auto& others) {
    std::vector<std::string> only;
    std::ranges::set_difference(some, others, std::back_inserter(only));
    return only;
  };
  const auto missing = only_in(training, classes);
  const auto more = only_in(classes, training);
  if (missing.empty() && more.empty()) return;
  const bool lacks = !missing.empty();
  throw Error(
      ExitCode::kBadInput,
      fmt::format("[data] {}: {} class {}, which {} {}{}", shown(root), lacks ? "has no" : "has a",
                  shown(lacks ? missing[0] : more[0]), shown(training_root.filename()),
                  lacks ? "has" : "has not",
                  missing.size() + more.size() > 1
                      ? fmt::format(" (and {} more differ)", missing.size() + more.size() - 1)
                      : ""));
}

}  // namespace

std::unique_ptr<Dataset> open_image_folder(const fs::path& training, const fs::path& test,
                                           Part part, const PictureOptions& options) {
  const std::int64_t opened = file_time();
  const fs::path first = training_root(training);
  FolderIndex index = index_of(first);
  require_two_classes(first, index.classes());
  if (part == Part::kTraining) {
    return std::make_unique<ImageFolder>(first, std::move(index), options, opened);
  }
  const std::vector<std::string> classes = index.classes();
  const fs::path root = test_root(training, test);
  index = index_of(root);
  require_same_classes(first, classes, root, index.classes());
  return std::make_unique<ImageFolder>(root, std::move(index), options, opened);
}

}  // namespace coxswain::data
