#include <utility>

#include "trainer/data/dataset.h"

namespace coxswain::data {

namespace {

class RepeatedChannels final : public Dataset {
 public:
  RepeatedChannels(std::unique_ptr<Dataset> dataset, std::int64_t times)
      : dataset_(std::move(dataset)), times_(times) {}

  std::int64_t size() const override { return dataset_->size(); }
  tensor::Shape sample_shape() const override {
    tensor::Shape shape = dataset_->sample_shape();
    shape.c *= times_;
    return shape;
  }
  std::int64_t classes() const override { return dataset_->classes(); }
  std::vector<std::string> class_names() const override { return dataset_->class_names(); }
  std::int32_t label(std::int64_t id) const override { return dataset_->label(id); }
  std::uint64_t content_hash() const override { return dataset_->content_hash(); }
  std::string class_name(std::int32_t label) const override { return dataset_->class_name(label); }

  augment::Image read(std::int64_t id, augment::Scratch& scratch) const override {
    const augment::Image image = dataset_->read(id, scratch);
    augment::Scratch repeated;
    repeated.reserve(image.bytes.size() * static_cast<std::size_t>(times_));
    for (const std::uint8_t value : image.bytes)
      repeated.insert(repeated.end(), static_cast<std::size_t>(times_), value);
    scratch.swap(repeated);
    return {sample_shape(), scratch};
  }

 private:
  const std::unique_ptr<Dataset> dataset_;
  const std::int64_t times_;
};

}  // namespace

std::unique_ptr<Dataset> repeat_channels(std::unique_ptr<Dataset> dataset, std::int64_t times) {
  return std::make_unique<RepeatedChannels>(std::move(dataset), times);
}

}  // namespace coxswain::data
