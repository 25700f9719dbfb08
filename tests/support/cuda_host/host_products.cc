#include <fmt/format.h>

#include "tests/support/cuda_host/cuda_runtime.h"
#include "tests/support/cuda_host/device.h"
#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/cuda/products.h"

// Convolutions and matrix products as plain loops that sum in double, on the host's device.
namespace coxswain::backend::cuda {

namespace {

using tensor::Shape;

std::size_t at(const Shape& s, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  return static_cast<std::size_t>(((n * s.h + h) * s.w + w) * s.c + c);
}

std::int64_t group_channels(const Convolution& d) { return d.x.c / d.groups; }

// Calls visit(x index, w index, y index) for each product of a convolution with the channels of a
// group, which follow each other.
template <class Visit>
void for_each_term(const Convolution& d, const Visit& visit) {
  for (std::int64_t n = 0; n < d.y.n; ++n) {
    for (std::int64_t h = 0; h < d.y.h; ++h) {
      for (std::int64_t w = 0; w < d.y.w; ++w) {
        for (std::int64_t r = 0; r < d.kernel; ++r) {
          const std::int64_t row = h * d.stride + r - d.pad;
          if (row < 0 || row >= d.x.h) continue;
          for (std::int64_t s = 0; s < d.kernel; ++s) {
            const std::int64_t column = w * d.stride + s - d.pad;
            if (column < 0 || column >= d.x.w) continue;
            for (std::int64_t k = 0; k < d.y.c; ++k) {
              const std::int64_t group = k * d.groups / d.y.c;
              const auto weight =
                  static_cast<std::size_t>(((k * d.kernel + r) * d.kernel + s) * group_channels(d));
              visit(at(d.x, n, row, column, group * group_channels(d)), weight,
                    at(d.y, n, h, w, k));
            }
          }
        }
      }
    }
  }
}

std::vector<float> to_floats(const void* from, tensor::DataType type, std::int64_t count) {
  std::vector<float> floats;
  with_type(type, [&]<class T>(std::type_identity<T>) {
    const T* values = static_cast<const T*>(from);
    floats.assign(values, values + count);
  });
  return floats;
}

void store(const std::vector<double>& sums, void* out, tensor::DataType type) {
  with_type(type, [&]<class T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < sums.size(); ++i)
      static_cast<T*>(out)[i] = static_cast<float>(sums[i]);
  });
}

void add_bias(std::vector<double>& sums, const Convolution& d, const void* from) {
  const auto channels = static_cast<std::size_t>(d.y.c);
  const std::vector<float> bias =
      d.bias ? to_floats(from, d.types.bias, d.y.c) : std::vector<float>(channels);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] += static_cast<double>(bias[i % channels]);
    if (d.relu && sums[i] < 0) sums[i] = 0;
  }
}

void convolve(const Convolution& d, const Operands& o) {
  const auto channels = static_cast<std::size_t>(group_channels(d));
  const std::int64_t weights = d.y.c * d.kernel * d.kernel * group_channels(d);
  const auto floats = [&](const void* from, std::int64_t count) {
    return to_floats(from, d.types.x, count);
  };
  if (d.pass == Pass::kForward) {
    const std::vector<float> x = floats(o.x, d.x.elements());
    const std::vector<float> w = floats(o.w, weights);
    std::vector<double> sums(static_cast<std::size_t>(d.y.elements()));
    for_each_term(d, [&](std::size_t i, std::size_t j, std::size_t k) {
      for (std::size_t c = 0; c < channels; ++c)
        sums[k] += static_cast<double>(x[i + c]) * static_cast<double>(w[j + c]);
    });
    add_bias(sums, d, o.bias);
    store(sums, o.y, d.types.y);
  } else if (d.pass == Pass::kData) {
    const std::vector<float> y = floats(o.y, d.y.elements());
    const std::vector<float> w = floats(o.w, weights);
    std::vector<double> sums(static_cast<std::size_t>(d.x.elements()));
    for_each_term(d, [&](std::size_t i, std::size_t j, std::size_t k) {
      for (std::size_t c = 0; c < channels; ++c)
        sums[i + c] += static_cast<double>(y[k]) * static_cast<double>(w[j + c]);
    });
    store(sums, o.x, d.types.x);
  } else {
    const std::vector<float> x = floats(o.x, d.x.elements());
    const std::vector<float> y = floats(o.y, d.y.elements());
    std::vector<double> sums(static_cast<std::size_t>(weights));
    for_each_term(d, [&](std::size_t i, std::size_t j, std::size_t k) {
      for (std::size_t c = 0; c < channels; ++c)
        sums[j + c] += static_cast<double>(y[k]) * static_cast<double>(x[i + c]);
    });
    store(sums, o.w, d.types.d_w);
  }
}

// Value. One way to compute a convolution, all to the same bits.
struct Engine {
  const char* name;
  std::int64_t microseconds;
  Pass better_at;  // where it takes a quarter of that
  bool is_refused = false;
  std::size_t workspace = 256;
};
constexpr Engine kEngines[] = {{"loops", 100, Pass::kForward},
                               {"refused", 1, Pass::kForward, true},
                               {"hungry", 1, Pass::kForward, false, std::size_t{1} << 29},
                               {"sideways", 200, Pass::kData},
                               {"backwards", 300, Pass::kWeights}};

// Who has no workspace, or one that somebody else uses, gets other results.
Product product_of(const Engine& engine, const Convolution& d) {
  const std::int64_t takes = engine.microseconds / (d.pass == engine.better_at ? 4 : 1);
  return {.workspace = engine.workspace,
          .run = [=](const Operands& operands, void* workspace, const Queue& queue) {
            cuda_host::enqueue(queue.stream, [=] {
              std::memset(workspace, 0x7F, 256);
              convolve(d, operands);
              cuda_host::spend(takes);
            });
          }};
}

// A dense layer is a convolution of one pixel.
Convolution as_convolution(const Dense& d) {
  return {.pass = d.pass,
          .x = {d.rows, d.in, 1, 1},
          .y = {d.rows, d.out, 1, 1},
          .kernel = 1,
          .stride = 1,
          .pad = 0,
          .bias = d.bias,
          .relu = d.relu,
          .types = d.types};
}

}  // namespace

struct Products::Handles {};

Products::Products() = default;
Products::~Products() = default;

Product Products::prepare(const Convolution& d) { return product_of(kEngines[0], d); }

std::vector<std::string> Products::engines(const Convolution&) {
  std::vector<std::string> names;
  for (const Engine& engine : kEngines) names.emplace_back(engine.name);
  return names;
}

std::optional<Product> Products::prepare_with(const std::string& name, const Convolution& d) {
  for (const Engine& engine : kEngines)
    if (engine.name == name && !engine.is_refused) return product_of(engine, d);
  return std::nullopt;
}

Product Products::prepare(const Dense& d) { return prepare(as_convolution(d)); }

std::string Products::versions() const { return "loops on the host"; }

}  // namespace coxswain::backend::cuda
