#include "trainer/picture_files.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/data/file_bytes.h"
#include "trainer/picture/decode.h"

namespace coxswain {

namespace {

class PictureFiles final : public data::Dataset {
 public:
  PictureFiles(std::vector<std::filesystem::path> paths, const data::PictureOptions& options,
               const tensor::Shape& shape, std::int64_t classes, data::Preprocessing evaluation)
      : paths_(std::move(paths)),
        options_(options),
        shape_(shape),
        classes_(classes),
        evaluation_(std::move(evaluation)) {}

  std::int64_t size() const override { return std::ssize(paths_); }
  tensor::Shape sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return classes_; }
  std::int32_t label(std::int64_t) const override { return 0; }
  std::string name(std::int64_t id) const override { return data::shown(path(id)); }
  augment::Image read(std::int64_t id, augment::Scratch& scratch) const override {
    const picture::Decoded decoded =
        picture::decode(data::read_file(path(id)),
                        {.channels = shape_.c,
                         .apply_orientation = options_.apply_orientation,
                         .least_side = options_.least_side},
                        scratch);
    if (!decoded.problem.empty()) throw data::BadSample(decoded.problem);
    require_fitting(decoded.shape);
    return {decoded.shape, scratch};
  }

 private:
  // Where the steps don't make them one size, those of the training are what the network takes.
  void require_fitting(const tensor::Shape& shape) const {
    const tensor::Shape made = augment::result_of(evaluation_, shape);
    const tensor::Shape taken = augment::result_of(evaluation_, shape_);
    if (made == taken) return;
    throw data::BadSample(
        fmt::format("of {}x{} becomes {}x{}, and the network takes {}x{}: resize it to {}x{}, the "
                    "size of the training images",
                    shape.w, shape.h, made.w, made.h, taken.w, taken.h, shape_.w, shape_.h));
  }

  const std::filesystem::path& path(std::int64_t id) const {
    return paths_[static_cast<std::size_t>(id)];
  }

  const std::vector<std::filesystem::path> paths_;
  const data::PictureOptions options_;
  const tensor::Shape shape_;
  const std::int64_t classes_;
  const data::Preprocessing evaluation_;
};

}  // namespace

std::unique_ptr<data::Dataset> open_picture_files(std::vector<std::filesystem::path> paths,
                                                  const data::PictureOptions& options,
                                                  const tensor::Shape& shape, std::int64_t classes,
                                                  data::Preprocessing evaluation) {
  return std::make_unique<PictureFiles>(std::move(paths), options, shape, classes,
                                        std::move(evaluation));
}

}  // namespace coxswain
