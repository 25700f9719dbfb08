#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "trainer/contract/error.h"
#include "trainer/data/dataset.h"
#include "trainer/data/file_bytes.h"
#include "trainer/data/record_file.h"
#include "trainer/picture/decode.h"

namespace coxswain::data {

namespace {

namespace fs = std::filesystem;

// Of all files of a part: what is as small is kept in memory, as IDX is. Small raw images would
// else cost more to ask for than to train on.
constexpr std::uint64_t kKeptBytes = std::uint64_t{64} << 20;

Keep what_to_keep(const std::vector<fs::path>& paths) {
  std::uint64_t bytes = 0;
  for (const fs::path& path : paths) {
    std::error_code failed;  // opening it says what
    const std::uint64_t size = fs::file_size(path, failed);
    if (!failed) bytes += size;
  }
  return bytes <= kKeptBytes ? Keep::kAll : Keep::kNothing;
}

class RecordDataset final : public Dataset {
 public:
  RecordDataset(const std::vector<fs::path>& paths, const PictureOptions& options)
      : options_(options) {
    const Keep keep = what_to_keep(paths);
    for (const fs::path& path : paths) {
      files_.emplace_back(path, keep);
      const fs::path index = fs::path(path).replace_extension(".idx");
      if (is_present(index)) files_.back().order_by(index);
      size_ += files_.back().size();
    }
    for (std::int64_t id = 0; id < size_; ++id) classes_ = std::max(classes_, label(id) + 1L);
    shape_ = shape_of_first();
  }

  std::int64_t size() const override { return size_; }
  tensor::Shape sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return classes_; }
  std::int32_t label(std::int64_t id) const override {
    const auto [file, index] = find(id);
    return file.label(index);
  }
  std::string name(std::int64_t id) const override {
    const auto [file, index] = find(id);
    return fmt::format("{}: record {}", shown(file.path()), index);
  }
  std::uint64_t content_hash() const override {
    tensor::Fnv1a hash;
    for (const RecordFile& file : files_) file.add_to(hash);
    return hash.hash();
  }
  void use_classes(std::int64_t classes) { classes_ = classes; }

  augment::Image read(std::int64_t id, augment::Scratch& scratch) const override {
    std::vector<std::uint8_t> joined;
    if (options_.raw.h > 0) {
      const auto pixels = raw(id, scratch, joined);
      if (!joined.empty()) scratch.swap(joined);  // where `pixels` lie
      return {options_.raw, pixels};
    }
    std::vector<std::uint8_t> bytes;
    const auto stored = image(id, bytes, joined);
    const picture::Decoded decoded = picture::decode(stored, decode_options(), scratch);
    if (!decoded.problem.empty()) throw BadSample(advised(decoded.problem));
    return {decoded.shape, scratch};
  }

 private:
  std::pair<const RecordFile&, std::int64_t> find(std::int64_t id) const {
    auto file = files_.begin();
    for (; id >= file->size(); ++file) id -= file->size();
    return {*file, id};
  }

  picture::DecodeOptions decode_options() const {
    return {.channels = options_.channels,
            .apply_orientation = options_.apply_orientation,
            .least_side = options_.least_side};
  }

  using Bytes = std::vector<std::uint8_t>;

  // In the file's own memory, or in one of the two.
  std::span<const std::uint8_t> image(std::int64_t id, Bytes& bytes, Bytes& joined) const {
    const auto [file, index] = find(id);
    if (const auto known = file.known_image(index); !known.empty()) return known;
    const ParsedRecord parsed = parse_record(file.read(index, bytes), joined);
    if (!parsed.problem.empty()) throw BadSample(parsed.problem);
    return parsed.record.image;
  }

  std::span<const std::uint8_t> raw(std::int64_t id, Bytes& bytes, Bytes& joined) const {
    const auto pixels = image(id, bytes, joined);
    if (std::ssize(pixels) == options_.raw.per_sample()) return pixels;
    throw BadSample(fmt::format("holds {} bytes, and raw images of data.shape {}", pixels.size(),
                                options_.raw.per_sample()));
  }

  static std::string advised(const std::string& problem) {
    if (problem != "is neither JPEG nor PNG") return problem;
    return problem + "; of raw images set data.shape";
  }

  tensor::Shape shape_of_first() const {
    if (options_.raw.h > 0) return options_.raw;
    Bytes bytes;
    Bytes joined;
    try {
      const picture::Decoded decoded = picture::measure(image(0, bytes, joined), decode_options());
      if (decoded.problem.empty()) return decoded.shape;
      throw BadSample(advised(decoded.problem));
    } catch (const BadSample& bad) {
      throw Error(ExitCode::kBadInput, fmt::format("[data] {}: {}", name(0), bad.what()));
    }
  }

  const PictureOptions options_;
  std::deque<RecordFile> files_;
  std::int64_t size_ = 0;
  std::int64_t classes_ = 0;
  tensor::Shape shape_;
};

}  // namespace

std::unique_ptr<Dataset> open_records(const fs::path& training, const fs::path& test, Part part,
                                      const PictureOptions& options) {
  auto first = std::make_unique<RecordDataset>(record_files(training, "train", kPathKey), options);
  if (first->classes() < 2) {
    throw Error(
        ExitCode::kBadInput,
        fmt::format("[data] {}: every record's label is 0; two classes or more are expected",
                    shown(training)));
  }
  if (part == Part::kTraining) return first;
  if (test.empty() && training.extension() == ".rec") {
    throw Error(ExitCode::kBadInput,
                fmt::format("[data] {}: name the .rec file of the test images with data.evalPath",
                            shown(training)));
  }
  const auto files = test.empty() ? record_files(training, "val", kPathKey)
                                  : record_files(test, "val", kEvalPathKey);
  auto second = std::make_unique<RecordDataset>(files, options);
  if (second->classes() > first->classes()) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[data] the test records' labels go up to {}, the training records' to "
                            "{}: set data.path and data.evalPath to parts of one set",
                            second->classes() - 1, first->classes() - 1));
  }
  second->use_classes(first->classes());
  return second;
}

}  // namespace coxswain::data
