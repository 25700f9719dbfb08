#include "trainer/graph/initialise.h"

#include <algorithm>
#include <array>

#include "trainer/tensor/philox.h"

namespace coxswain::graph {

namespace {

std::array<float, 4> four_values(const Initializer& init,
                                 const std::array<std::uint32_t, 4>& words) {
  std::array<float, 4> values{};
  if (init.kind == InitKind::kNormal) {
    const auto [a, b] = tensor::to_normal(words[0], words[1]);
    const auto [c, d] = tensor::to_normal(words[2], words[3]);
    values = {a, b, c, d};
  } else {
    for (std::size_t i = 0; i < 4; ++i) values[i] = 2 * tensor::to_uniform(words[i]) - 1;
  }
  for (float& value : values) value *= init.scale;
  return values;
}

// Filter k becomes 1 at the middle of channel k, as far as there are both.
void pass_on_channels(const std::vector<std::int64_t>& dims, std::span<float> filters) {
  const std::int64_t window = dims[2] * dims[3];
  const std::int64_t size = dims[1] * window;
  for (std::int64_t k = 0; k < std::min(dims[0], dims[1]); ++k) {
    const auto filter =
        filters.subspan(static_cast<std::size_t>(k * size), static_cast<std::size_t>(size));
    std::ranges::fill(filter, 0.0F);
    filter[static_cast<std::size_t>(k * window + dims[2] / 2 * dims[3] + dims[3] / 2)] = 1;
  }
}

}  // namespace

void initialise(const Parameter& parameter, std::uint64_t seed, std::span<float> canonical) {
  if (parameter.init.kind == InitKind::kZero || parameter.init.kind == InitKind::kOne) {
    std::ranges::fill(canonical, parameter.init.kind == InitKind::kOne ? 1.0F : 0.0F);
    return;
  }
  const std::uint32_t stream = tensor::stream_of(parameter.name);
  for (std::size_t i = 0; i < canonical.size(); i += 4) {
    const auto words = tensor::philox(seed, {0, 0, stream, static_cast<std::uint32_t>(i / 4)});
    const std::array<float, 4> values = four_values(parameter.init, words);
    const std::size_t count = std::min<std::size_t>(4, canonical.size() - i);
    std::copy_n(values.begin(), count, canonical.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (parameter.init.passes_on) pass_on_channels(parameter.dims, canonical);
}

}  // namespace coxswain::graph
