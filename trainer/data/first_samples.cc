#include <algorithm>
#include <utility>

#include "trainer/data/dataset.h"

namespace coxswain::data {

namespace {

class FirstSamples final : public Dataset {
 public:
  FirstSamples(std::unique_ptr<Dataset> dataset, std::int64_t count)
      : dataset_(std::move(dataset)), count_(std::min(count, dataset_->size())) {}

  std::int64_t size() const override { return count_; }
  tensor::Shape sample_shape() const override { return dataset_->sample_shape(); }
  std::int64_t classes() const override { return dataset_->classes(); }
  std::vector<std::string> class_names() const override { return dataset_->class_names(); }
  std::int32_t label(std::int64_t id) const override { return dataset_->label(id); }
  std::uint64_t content_hash() const override { return dataset_->content_hash(); }
  std::string class_name(std::int32_t label) const override { return dataset_->class_name(label); }
  std::string name(std::int64_t id) const override { return dataset_->name(id); }
  augment::Image read(std::int64_t id, augment::Scratch& scratch) const override {
    return dataset_->read(id, scratch);
  }

 private:
  const std::unique_ptr<Dataset> dataset_;
  const std::int64_t count_;
};

}  // namespace

std::unique_ptr<Dataset> first_of(std::unique_ptr<Dataset> dataset, std::int64_t count) {
  return std::make_unique<FirstSamples>(std::move(dataset), count);
}

}  // namespace coxswain::data
