#include "trainer/data/dataset_identity.h"

#include <fmt/format.h>

#include "trainer/contract/error.h"
#include "trainer/tensor/fnv1a.h"

namespace coxswain::data {

namespace {

constexpr std::int64_t kHashedLabels = 1 << 20;  // a made-up label takes 20 ns

std::string shape_text(const tensor::Shape& shape) {
  return fmt::format("{}x{}x{}", shape.c, shape.h, shape.w);
}

std::uint64_t hash_of_labels(const Dataset& dataset) {
  tensor::Fnv1a hash;
  const std::int64_t every = (dataset.size() + kHashedLabels - 1) / kHashedLabels;
  for (std::int64_t id = 0; id < dataset.size(); id += every) {
    hash.add(static_cast<std::uint32_t>(dataset.label(id)));
  }
  return hash.hash();
}

}  // namespace

std::map<std::string, std::string> identity_of(const Dataset& dataset) {
  std::map<std::string, std::string> identity = {
      {"samples", fmt::format("{}", dataset.size())},
      {"shape", shape_text(dataset.sample_shape())},
      {"classes", fmt::format("{}", dataset.classes())},
      {"labels", fmt::format("{:016x}", hash_of_labels(dataset))}};
  const std::uint64_t content = dataset.content_hash();
  if (content != 0) identity["content"] = fmt::format("{:016x}", content);
  return identity;
}

void require_one_kind(const Dataset& training, const Dataset& test,
                      const Preprocessing& training_steps, const Preprocessing& test_steps) {
  const tensor::Shape shape = augment::result_of(training_steps, training.sample_shape());
  const tensor::Shape test_shape = augment::result_of(test_steps, test.sample_shape());
  if (shape == test_shape && training.classes() == test.classes()) return;
  const bool differ_in_size = shape.c == test_shape.c && training.classes() == test.classes();
  throw Error(
      ExitCode::kBadInput,
      fmt::format("[data] training images are {} in {} classes, test images {} in {}: {}set "
                  "data.path and data.evalPath to parts of one set",
                  shape_text(shape), training.classes(), shape_text(test_shape), test.classes(),
                  differ_in_size ? "let data.augment, and data.evalAugment where it is given, make "
                                   "them one size (as resize and centre-crop do), or "
                                 : ""));
}

}  // namespace coxswain::data
