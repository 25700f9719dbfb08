#include "trainer/backend/cuda/orthogonaliser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "tests/support/cuda_host/device.h"
#include "trainer/optim/orthogonalise.h"
#include "trainer/optim/update_rule.h"

namespace coxswain::backend::cuda {
namespace {

using tensor::Segment;
using tensor::SegmentKind;

std::vector<float> of_norm_1(std::size_t size) {
  std::mt19937 random(static_cast<unsigned int>(size));
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  const auto norm = static_cast<float>(std::sqrt(optim::sum_of_squares(values)));
  for (float& value : values) value /= norm;
  return values;
}

tensor::ParameterLayout layout_of(const std::vector<std::vector<std::int64_t>>& all_dims) {
  std::vector<Segment> segments;
  for (const auto& dims : all_dims) {
    segments.push_back({.name = "weight", .kind = SegmentKind::kWeight, .dims = dims});
    segments.back().stored = segments.back().elements();
  }
  return tensor::pack(std::move(segments));
}

// Wide, tall, square, of a convolution, of a single row and column, and a bias, which is none.
TEST(CudaOrthogonaliser, makes_of_all_matrices_what_the_host_makes) {
  const tensor::ParameterLayout layout =
      layout_of({{5, 23}, {23, 5}, {8, 8}, {6, 3, 3, 3}, {40, 1, 3, 3}, {1, 7}, {7, 1}, {12}});
  for (const std::uint64_t seed : {1, 2, 3}) {
    cuda_host::set_seed(seed);
    const Stream stream = make_stream();
    const Queue queue{stream.get(), 2};
    Products products;
    const Orthogonaliser orthogonaliser(layout, products, queue);
    const PinnedMemory host(static_cast<std::size_t>(layout.size()) * sizeof(float));
    const std::span all(reinterpret_cast<float*>(host.data()),
                        static_cast<std::size_t>(layout.size()));
    const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
      check(cudaMemcpyAsync(to, from, host.size(), kind, queue.stream), "copying");
    };
    const auto part = [&](const Segment& s) {
      return all.subspan(static_cast<std::size_t>(s.offset), static_cast<std::size_t>(s.stored));
    };
    std::ranges::fill(all, 0.0F);
    for (const Segment& s : layout.segments)
      std::ranges::copy(of_norm_1(static_cast<std::size_t>(s.stored)), part(s).begin());
    copy(orthogonaliser.directions(), host.data(), cudaMemcpyHostToDevice);
    orthogonaliser.run(queue);
    copy(host.data(), orthogonaliser.directions(), cudaMemcpyDeviceToHost);
    check(cudaStreamSynchronize(queue.stream), "waiting");
    for (const Segment& s : layout.segments) {
      if (!is_matrix(s)) continue;
      std::vector<float> expected = of_norm_1(static_cast<std::size_t>(s.stored));
      optim::orthogonalise(expected, s.dims[0], 1e-7F);
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(part(s)[i], expected[i], 2e-5) << s.dims[0] << " rows, element " << i;
    }
  }
}

}  // namespace
}  // namespace coxswain::backend::cuda
