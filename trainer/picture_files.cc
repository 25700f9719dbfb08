#include "trainer/picture_files.h"

#include <utility>

#include "trainer/data/file_bytes.h"
#include "trainer/picture/decode.h"

namespace coxswain {

namespace {

class PictureFiles final : public data::Dataset {
 public:
  PictureFiles(std::vector<std::filesystem::path> paths, const data::PictureOptions& options,
               const tensor::Shape& shape, std::int64_t classes)
      : paths_(std::move(paths)), options_(options), shape_(shape), classes_(classes) {}

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
    return {decoded.shape, scratch};
  }

 private:
  const std::filesystem::path& path(std::int64_t id) const {
    return paths_[static_cast<std::size_t>(id)];
  }

  const std::vector<std::filesystem::path> paths_;
  const data::PictureOptions options_;
  const tensor::Shape shape_;
  const std::int64_t classes_;
};

}  // namespace

std::unique_ptr<data::Dataset> open_picture_files(std::vector<std::filesystem::path> paths,
                                                  const data::PictureOptions& options,
                                                  const tensor::Shape& shape,
                                                  std::int64_t classes) {
  return std::make_unique<PictureFiles>(std::move(paths), options, shape, classes);
}

}  // namespace coxswain
