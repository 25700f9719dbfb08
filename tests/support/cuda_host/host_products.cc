#include <fmt/format.h>

#include "tests/support/cuda_host/cuda_runtime.h"
#include "trainer/backend/cuda/products.h"

// Convolutions and matrix products as plain loops that sum in double, on the host's device.
namespace coxswain::backend::cuda {

namespace {

using tensor::Shape;

std::size_t at(const Shape& s, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  return static_cast<std::size_t>(((n * s.h + h) * s.w + w) * s.c + c);
}

// Calls visit(x index, w index, y index) for each product of a convolution.
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
            const std::size_t x = at(d.x, n, row, column, 0);
            const std::size_t y = at(d.y, n, h, w, 0);
            for (std::int64_t k = 0; k < d.y.c; ++k) {
              const auto weight =
                  static_cast<std::size_t>(((k * d.kernel + r) * d.kernel + s) * d.x.c);
              visit(x, weight, y + static_cast<std::size_t>(k));
            }
          }
        }
      }
    }
  }
}

void store(const std::vector<double>& sums, float* out) {
  for (std::size_t i = 0; i < sums.size(); ++i) out[i] = static_cast<float>(sums[i]);
}

void add_bias(std::vector<double>& sums, const float* bias, std::int64_t channels, bool relu) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (bias != nullptr) sums[i] += bias[i % static_cast<std::size_t>(channels)];
    if (relu && sums[i] < 0) sums[i] = 0;
  }
}

void convolve(const Convolution& d, const Operands& o) {
  const auto channels = static_cast<std::size_t>(d.x.c);
  if (d.pass == Pass::kForward) {
    std::vector<double> sums(static_cast<std::size_t>(d.y.elements()));
    for_each_term(d, [&](std::size_t x, std::size_t w, std::size_t y) {
      for (std::size_t c = 0; c < channels; ++c)
        sums[y] += static_cast<double>(o.x[x + c]) * static_cast<double>(o.w[w + c]);
    });
    add_bias(sums, o.bias, d.y.c, d.relu);
    store(sums, o.y);
  } else if (d.pass == Pass::kData) {
    std::vector<double> sums(static_cast<std::size_t>(d.x.elements()));
    for_each_term(d, [&](std::size_t x, std::size_t w, std::size_t y) {
      for (std::size_t c = 0; c < channels; ++c)
        sums[x + c] += static_cast<double>(o.y[y]) * static_cast<double>(o.w[w + c]);
    });
    store(sums, o.x);
  } else {
    std::vector<double> sums(static_cast<std::size_t>(d.y.c * d.kernel * d.kernel * d.x.c));
    for_each_term(d, [&](std::size_t x, std::size_t w, std::size_t y) {
      for (std::size_t c = 0; c < channels; ++c)
        sums[w + c] += static_cast<double>(o.y[y]) * static_cast<double>(o.x[x + c]);
    });
    store(sums, o.w);
  }
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
          .relu = d.relu};
}

}  // namespace

struct Products::Handles {};

Products::Products() = default;
Products::~Products() = default;

// Who has no workspace, or one that somebody else uses, gets other results.
Product Products::prepare(const Convolution& d) {
  constexpr std::size_t kWorkspace = 256;
  return {.workspace = kWorkspace,
          .run = [d](const Operands& operands, void* workspace, const Queue& queue) {
            cuda_host::enqueue(queue.stream, [=] {
              std::memset(workspace, 0x7F, kWorkspace);
              convolve(d, operands);
            });
          }};
}

Product Products::prepare(const Dense& d) { return prepare(as_convolution(d)); }

std::string Products::versions() const { return "loops on the host"; }

}  // namespace coxswain::backend::cuda
