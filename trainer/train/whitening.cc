#include "trainer/train/whitening.h"

#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "trainer/data/data_loader.h"
#include "trainer/tensor/pixels.h"
#include "trainer/train/averaged_weights.h"

namespace coxswain::train {

namespace {

constexpr std::int64_t kMostImages = 5000;
constexpr std::int64_t kMostProducts = std::int64_t{1} << 32;  // a few seconds of them
constexpr std::int64_t kBatch = 64;
constexpr double kEpsilon = 5e-4;

// Sums patch times patch over every place of a square window that lies in the image.
class PatchMoments {
 public:
  explicit PatchMoments(const tensor::Shape& image, std::int64_t side)
      : image_(image),
        side_(side),
        patch_(static_cast<std::size_t>(image.c * side * side)),
        sums_(patch_.size() * patch_.size()) {}

  std::int64_t places() const { return (image_.h - side_ + 1) * (image_.w - side_ + 1); }
  std::int64_t products_an_image() const { return places() * std::ssize(sums_); }

  void add(std::span<const float> image) {
    for (std::int64_t y = 0; y + side_ <= image_.h; ++y)
      for (std::int64_t x = 0; x + side_ <= image_.w; ++x) add_patch(image, y, x);
    patches_ += places();
  }

  std::vector<double> mean() const {
    std::vector<double> mean = sums_;
    for (double& value : mean) value /= static_cast<double>(patches_);
    return mean;
  }

 private:
  void add_patch(std::span<const float> image, std::int64_t y, std::int64_t x) {
    double* to = patch_.data();
    for (std::int64_t c = 0; c < image_.c; ++c)
      for (std::int64_t r = 0; r < side_; ++r)
        to = std::copy_n(image.begin() + (c * image_.h + y + r) * image_.w + x, side_, to);
    double* sum = sums_.data();
    for (const double left : patch_)
      for (const double right : patch_) *sum++ += left * right;
  }

  tensor::Shape image_;  // (1, C, H, W)
  std::int64_t side_;
  std::vector<double> patch_;  // (C, R, S)
  std::vector<double> sums_;
  std::int64_t patches_ = 0;
};

// Returns how many images there were.
std::int64_t add_images(const TrainOptions& options, const data::Dataset& training,
                        const tensor::Shape& shape, PatchMoments& moments) {
  const std::int64_t wanted = std::clamp<std::int64_t>(kMostProducts / moments.products_an_image(),
                                                       1, std::min(kMostImages, training.size()));
  const std::int64_t at_once = std::min(kBatch, wanted);
  data::BadSampleLog skipped;
  data::LoaderOptions loading;
  loading.preprocessing = options.preprocessing;  // without chance: the shape is the network's
  loading.training = false;
  loading.workers = options.data_workers;
  loading.skipped = options.skip_bad_samples ? &skipped : nullptr;
  data::DataLoader loader(
      training, loading,
      data::in_order(0, training.size(), at_once, (training.size() + wanted - 1) / wanted));
  const auto size = static_cast<std::size_t>(shape.c * shape.h * shape.w);
  std::vector<float> images(static_cast<std::size_t>(at_once) * size);
  std::int64_t count = 0;
  while (const data::HostBatch* batch = loader.next()) {
    tensor::Shape rows = shape;
    rows.n = batch->valid;
    tensor::to_floats({batch->images, loader.table()}, rows, images);
    for (std::int64_t n = 0; n < batch->valid; ++n)
      moments.add(std::span(images).subspan(static_cast<std::size_t>(n) * size, size));
    count += batch->valid;
  }
  return count;
}

bool is_whitening(const graph::Node& node) {
  return node.op == graph::Op::kConv2d && node.weight_init == graph::WeightInit::kWhitening;
}

}  // namespace

std::vector<float> whitening_filters(std::span<const double> moments, std::int64_t filters) {
  const auto size = static_cast<Eigen::Index>(std::lround(std::sqrt(moments.size())));
  // Eigenvalues ascend.
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solved(
      Eigen::Map<const Eigen::MatrixXd>(moments.data(), size, size));
  std::vector<float> weights;
  const Eigen::Index directions = (filters + 1) / 2;
  for (Eigen::Index k = 0; k < filters; ++k) {
    const Eigen::Index of = size - 1 - k % directions;
    const Eigen::VectorXd direction = solved.eigenvectors().col(of);
    Eigen::Index largest = 0;
    direction.cwiseAbs().maxCoeff(&largest);
    // Either sign is a direction: the one whose largest value is positive.
    const double sign = (direction[largest] < 0) == (k < directions) ? -1 : 1;
    const double root = std::sqrt(std::max(0.0, solved.eigenvalues()[of]) + kEpsilon);
    for (const double value : direction) weights.push_back(static_cast<float>(sign * value / root));
  }
  return weights;
}

bool whitens(const graph::Graph& graph) { return std::ranges::any_of(graph.nodes, is_whitening); }

void whiten(const graph::Graph& graph, const TrainOptions& options, const data::Dataset& training,
            checkpoint::Contents& contents, std::vector<std::string>& notes) {
  const auto node = std::ranges::find_if(graph.nodes, is_whitening);
  const std::string name =
      graph::parameters(graph, static_cast<int>(node - graph.nodes.begin())).front().name;
  PatchMoments moments(graph.input().shape, node->kernel);
  const std::int64_t images = add_images(options, training, graph.input().shape, moments);
  if (images == 0) {
    throw Error(
        ExitCode::kBadInput,
        "[data] none of the training images that firstWeights: whitening is of can be read");
  }
  std::ranges::find(contents.model, name, &checkpoint::NamedTensor::name)->values =
      whitening_filters(moments.mean(), node->channels);
  begin_averages(contents);
  notes.push_back(fmt::format("{} whitens: of {} training images", name, images));
}

}  // namespace coxswain::train
