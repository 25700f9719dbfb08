#include <algorithm>
#include <vector>

#include "trainer/backend/reference/operations.h"
#include "trainer/backend/reference/sums.h"

namespace coxswain::backend::reference {

namespace {

// Value. The outputs along one axis whose input lies inside the image for one cell of the window:
// output o in [first, last) reads input o * stride + cell - pad.
struct Reach {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

Reach reach(const graph::Node& node, std::int64_t cell, std::int64_t in_size,
            std::int64_t out_size) {
  const std::int64_t shift = cell - node.pad;
  const std::int64_t first = shift >= 0 ? 0 : (-shift + node.stride - 1) / node.stride;
  const std::int64_t room = in_size - 1 - shift;
  const std::int64_t last = room < 0 ? 0 : room / node.stride + 1;
  return {first, std::min(last, out_size)};
}

// Calls visit(output offset, input offset, count) for every row of one (R, S) cell of the window:
// output elements [o, o + count) of a plane meet input elements i, i + stride, ...
template <typename Visit>
void for_each_row(const Work& w, std::int64_t r, std::int64_t s, const Visit& visit) {
  const graph::Node& n = w.node;
  const Reach rows = reach(n, r, w.in.h, n.shape.h);
  const Reach columns = reach(n, s, w.in.w, n.shape.w);
  if (columns.first >= columns.last) return;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::int64_t in_row = row * n.stride + r - n.pad;
    const std::int64_t in_column = columns.first * n.stride + s - n.pad;
    visit(row * n.shape.w + columns.first, in_row * w.in.w + in_column,
          columns.last - columns.first);
  }
}

void store(const std::vector<double>& sums, float* out) {
  std::transform(sums.begin(), sums.end(), out, [](double sum) { return static_cast<float>(sum); });
}

// weight (K, C, R, S), bias (K).
void forward(const Work& w) {
  const graph::Node& node = w.node;
  const Shape& shape = node.shape;
  const In weight = w.values("weight");
  const In bias = w.values("bias");
  const std::int64_t in_plane = w.in.h * w.in.w;
  const std::int64_t out_plane = shape.h * shape.w;
  std::vector<double> sums(static_cast<std::size_t>(out_plane));
  for (std::int64_t n = 0; n < shape.n; ++n) {
    for (std::int64_t k = 0; k < shape.c; ++k) {
      std::fill(sums.begin(), sums.end(),
                bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<std::size_t>(k)]));
      const float* value = weight.data() + k * w.in.c * node.kernel * node.kernel;
      for (std::int64_t c = 0; c < w.in.c; ++c) {
        const float* image = w.x().data() + (n * w.in.c + c) * in_plane;
        for (std::int64_t r = 0; r < node.kernel; ++r) {
          for (std::int64_t s = 0; s < node.kernel; ++s, ++value) {
            for_each_row(w, r, s, [&](std::int64_t out, std::int64_t in, std::int64_t count) {
              add_scaled(sums.data() + out, *value, image + in, count, node.stride);
            });
          }
        }
      }
      store(sums, w.out.data() + (n * shape.c + k) * out_plane);
    }
  }
}

void backward_weights(const Work& w) {
  const graph::Node& node = w.node;
  const Shape& shape = node.shape;
  const Out d_weight = w.gradients("weight");
  const Out d_bias = w.gradients("bias");
  const std::int64_t in_plane = w.in.h * w.in.w;
  const std::int64_t out_plane = shape.h * shape.w;
  std::vector<double> sums(d_weight.size());
  std::vector<double> bias_sums(static_cast<std::size_t>(shape.c));
  for (std::int64_t n = 0; n < shape.n; ++n) {
    double* sum = sums.data();
    for (std::int64_t k = 0; k < shape.c; ++k) {
      const float* gradient = w.d_y.data() + (n * shape.c + k) * out_plane;
      for (std::int64_t i = 0; i < out_plane; ++i)
        bias_sums[static_cast<std::size_t>(k)] += gradient[i];
      for (std::int64_t c = 0; c < w.in.c; ++c) {
        const float* image = w.x().data() + (n * w.in.c + c) * in_plane;
        for (std::int64_t r = 0; r < node.kernel; ++r) {
          for (std::int64_t s = 0; s < node.kernel; ++s, ++sum) {
            for_each_row(w, r, s, [&](std::int64_t out, std::int64_t in, std::int64_t count) {
              *sum += dot(gradient + out, image + in, count, node.stride);
            });
          }
        }
      }
    }
  }
  store(sums, d_weight.data());
  if (!d_bias.empty()) store(bias_sums, d_bias.data());
}

void backward_data(const Work& w) {
  const graph::Node& node = w.node;
  const Shape& shape = node.shape;
  const In weight = w.values("weight");
  const std::int64_t in_plane = w.in.h * w.in.w;
  const std::int64_t out_plane = shape.h * shape.w;
  const std::int64_t cells = node.kernel * node.kernel;
  std::vector<double> sums(static_cast<std::size_t>(in_plane));
  for (std::int64_t n = 0; n < w.in.n; ++n) {
    for (std::int64_t c = 0; c < w.in.c; ++c) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (std::int64_t k = 0; k < shape.c; ++k) {
        const float* gradient = w.d_y.data() + (n * shape.c + k) * out_plane;
        const float* value = weight.data() + (k * w.in.c + c) * cells;
        for (std::int64_t r = 0; r < node.kernel; ++r) {
          for (std::int64_t s = 0; s < node.kernel; ++s, ++value) {
            for_each_row(w, r, s, [&](std::int64_t out, std::int64_t in, std::int64_t count) {
              scatter_scaled(sums.data() + in, *value, gradient + out, count, node.stride);
            });
          }
        }
      }
      store(sums, w.out.data() + (n * w.in.c + c) * in_plane);
    }
  }
}

}  // namespace

const Loops kConv2d{.forward = forward,
                    .backward_data = backward_data,
                    .backward_weights = backward_weights};

}  // namespace coxswain::backend::reference
