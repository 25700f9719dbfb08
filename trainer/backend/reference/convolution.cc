#include <algorithm>
#include <vector>

#include "trainer/backend/reference/kernels.h"
#include "trainer/backend/reference/sums.h"

namespace coxswain::backend::reference {

Reach reach(const Window& window, std::int64_t cell, std::int64_t in_size, std::int64_t out_size) {
  const std::int64_t shift = cell - window.pad;
  const std::int64_t first = shift >= 0 ? 0 : (-shift + window.stride - 1) / window.stride;
  const std::int64_t room = in_size - 1 - shift;
  const std::int64_t last = room < 0 ? 0 : room / window.stride + 1;
  return {first, std::min(last, out_size)};
}

namespace {

// Calls visit(output offset, input offset, count) for every row of one (R, S) cell of the window:
// output elements [o, o + count) of a plane meet input elements i, i + stride, ...
template <typename Visit>
void for_each_row(const Window& w, std::int64_t r, std::int64_t s, const Visit& visit) {
  const Reach rows = reach(w, r, w.in.h, w.out.h);
  const Reach columns = reach(w, s, w.in.w, w.out.w);
  if (columns.first >= columns.last) return;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::int64_t in_row = row * w.stride + r - w.pad;
    const std::int64_t in_column = columns.first * w.stride + s - w.pad;
    visit(row * w.out.w + columns.first, in_row * w.in.w + in_column, columns.last - columns.first);
  }
}

void store(const std::vector<double>& sums, float* out) {
  std::transform(sums.begin(), sums.end(), out, [](double sum) { return static_cast<float>(sum); });
}

}  // namespace

void convolution_forward(const Window& w, In x, In weight, In bias, Out y) {
  const std::int64_t in_plane = w.in.h * w.in.w;
  const std::int64_t out_plane = w.out.h * w.out.w;
  std::vector<double> sums(static_cast<std::size_t>(out_plane));
  for (std::int64_t n = 0; n < w.out.n; ++n) {
    for (std::int64_t k = 0; k < w.out.c; ++k) {
      std::fill(sums.begin(), sums.end(),
                bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<std::size_t>(k)]));
      const float* value = weight.data() + k * w.in.c * w.kernel * w.kernel;
      for (std::int64_t c = 0; c < w.in.c; ++c) {
        const float* image = x.data() + (n * w.in.c + c) * in_plane;
        for (std::int64_t r = 0; r < w.kernel; ++r) {
          for (std::int64_t s = 0; s < w.kernel; ++s, ++value) {
            for_each_row(w, r, s, [&](std::int64_t out, std::int64_t in, std::int64_t count) {
              add_scaled(sums.data() + out, *value, image + in, count, w.stride);
            });
          }
        }
      }
      store(sums, y.data() + (n * w.out.c + k) * out_plane);
    }
  }
}

void convolution_backward_weights(const Window& w, In x, In d_y, Out d_weight, Out d_bias) {
  const std::int64_t in_plane = w.in.h * w.in.w;
  const std::int64_t out_plane = w.out.h * w.out.w;
  std::vector<double> sums(d_weight.size());
  std::vector<double> bias_sums(static_cast<std::size_t>(w.out.c));
  for (std::int64_t n = 0; n < w.out.n; ++n) {
    double* sum = sums.data();
    for (std::int64_t k = 0; k < w.out.c; ++k) {
      const float* gradient = d_y.data() + (n * w.out.c + k) * out_plane;
      for (std::int64_t i = 0; i < out_plane; ++i)
        bias_sums[static_cast<std::size_t>(k)] += gradient[i];
      for (std::int64_t c = 0; c < w.in.c; ++c) {
        const float* image = x.data() + (n * w.in.c + c) * in_plane;
        for (std::int64_t r = 0; r < w.kernel; ++r) {
          for (std::int64_t s = 0; s < w.kernel; ++s, ++sum) {
            for_each_row(w, r, s, [&](std::int64_t out, std::int64_t in, std::int64_t count) {
              *sum += dot(gradient + out, image + in, count, w.stride);
            });
          }
        }
      }
    }
  }
  store(sums, d_weight.data());
  if (!d_bias.empty()) store(bias_sums, d_bias.data());
}

void convolution_backward_data(const Window& w, In weight, In d_y, Out d_x) {
  const std::int64_t in_plane = w.in.h * w.in.w;
  const std::int64_t out_plane = w.out.h * w.out.w;
  const std::int64_t cells = w.kernel * w.kernel;
  std::vector<double> sums(static_cast<std::size_t>(in_plane));
  for (std::int64_t n = 0; n < w.in.n; ++n) {
    for (std::int64_t c = 0; c < w.in.c; ++c) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (std::int64_t k = 0; k < w.out.c; ++k) {
        const float* gradient = d_y.data() + (n * w.out.c + k) * out_plane;
        const float* value = weight.data() + (k * w.in.c + c) * cells;
        for (std::int64_t r = 0; r < w.kernel; ++r) {
          for (std::int64_t s = 0; s < w.kernel; ++s, ++value) {
            for_each_row(w, r, s, [&](std::int64_t out, std::int64_t in, std::int64_t count) {
              scatter_scaled(sums.data() + in, *value, gradient + out, count, w.stride);
            });
          }
        }
      }
      store(sums, d_x.data() + (n * w.in.c + c) * in_plane);
    }
  }
}

}  // namespace coxswain::backend::reference
