#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <vector>

#include "trainer/contract/error.h"
#include "trainer/data/dataset.h"
#include "trainer/tensor/philox.h"

namespace coxswain::data {

namespace {

constexpr std::int64_t kPoolImages = 64;
constexpr std::int64_t kPoolBytes = std::int64_t{64} << 20;
constexpr std::int64_t kMostOfSide = 16384;
constexpr int kNoise = 64;  // pixels are the mean and 0..63

std::uint32_t scaled(std::uint32_t word, std::int64_t bound) {
  return static_cast<std::uint32_t>((std::uint64_t{word} * static_cast<std::uint64_t>(bound)) >>
                                    32);
}

// A pool of few images stands for all: a sample is its label and one of the pool's images of that
// label. With more classes than images, classes share one.
class SyntheticDataset : public Dataset {
 public:
  SyntheticDataset(tensor::Shape shape, std::int64_t classes, std::int64_t size, std::uint64_t seed)
      : shape_(shape), classes_(classes), size_(size), seed_(seed) {
    images_ = std::clamp<std::int64_t>(kPoolBytes / shape.per_sample(), 1, kPoolImages);
    means_ = std::min(images_, classes);
    pool_.resize(static_cast<std::size_t>(images_ * shape.per_sample()));
    for (std::int64_t i = 0; i < images_; ++i) fill(i);
  }

  std::int64_t size() const override { return size_; }
  tensor::Shape sample_shape() const override { return shape_; }
  std::int64_t classes() const override { return classes_; }
  std::int32_t label(std::int64_t id) const override {
    return static_cast<std::int32_t>(scaled(words(id)[0], classes_));
  }
  augment::Image read(std::int64_t id, augment::Scratch&) const override {
    const std::int64_t mean = label(id) % means_;
    const std::int64_t variants = (images_ - mean + means_ - 1) / means_;
    return {shape_, image(mean + means_ * scaled(words(id)[1], variants))};
  }

 private:
  std::array<std::uint32_t, 4> words(std::int64_t id) const {
    assert(id >= 0 && id < size_);
    return tensor::philox(seed_,
                          {static_cast<std::uint32_t>(id), 0, tensor::stream_of("synthetic-label"),
                           static_cast<std::uint32_t>(id >> 32)});
  }

  std::span<const std::uint8_t> image(std::int64_t index) const {
    const auto bytes = static_cast<std::size_t>(shape_.per_sample());
    return std::span(pool_).subspan(static_cast<std::size_t>(index) * bytes, bytes);
  }

  // The noise is drawn plane by plane.
  void fill(std::int64_t index) {
    const std::int64_t bytes = shape_.per_sample();
    const std::int64_t steps = std::max<std::int64_t>(means_ - 1, 1);
    const auto base = static_cast<std::uint8_t>((256 - kNoise) * (index % means_) / steps);
    const std::uint32_t stream = tensor::stream_of("synthetic-pixels");
    std::vector<std::uint8_t> out(static_cast<std::size_t>(bytes));
    for (std::int64_t i = 0; i < bytes; i += 16) {
      const auto block = tensor::philox(seed_, {static_cast<std::uint32_t>(index), 0, stream,
                                                static_cast<std::uint32_t>(i / 16)});
      for (std::int64_t k = 0; k < std::min<std::int64_t>(16, bytes - i); ++k) {
        const std::uint32_t byte = block[static_cast<std::size_t>(k / 4)] >> (8 * (k % 4));
        out[static_cast<std::size_t>(i + k)] =
            static_cast<std::uint8_t>(std::min<std::uint32_t>(255, base + byte % kNoise));
      }
    }
    const auto place = static_cast<std::size_t>(index * bytes);
    augment::interleave(out, shape_, std::span(pool_).subspan(place, out.size()));
  }

  tensor::Shape shape_;
  std::int64_t classes_;
  std::int64_t size_;
  std::uint64_t seed_;
  std::int64_t images_ = 0;
  std::int64_t means_ = 0;  // distinct means: classes, or images where there are fewer
  std::vector<std::uint8_t> pool_;
};

}  // namespace

std::unique_ptr<Dataset> make_synthetic(tensor::Shape sample_shape, std::int64_t classes,
                                        std::int64_t size, std::uint64_t seed) {
  const tensor::Shape& s = sample_shape;
  const bool sides_fit = std::min({s.c, s.h, s.w}) >= 1 && std::max({s.c, s.h, s.w}) <= kMostOfSide;
  if (s.n != 1 || !sides_fit || s.per_sample() > kPoolBytes) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[data] synthetic images of {}x{}x{}: expected sides of 1 to {} and at "
                            "most {} pixels",
                            s.c, s.h, s.w, kMostOfSide, kPoolBytes));
  }
  if (classes < 1 || classes > INT32_MAX || size < 1) {
    throw Error(
        ExitCode::kBadInput,
        fmt::format("[data] synthetic data of {} samples in {} classes: expected at least 1 "
                    "of each",
                    size, classes));
  }
  return std::make_unique<SyntheticDataset>(s, classes, size, seed);
}

}  // namespace coxswain::data
