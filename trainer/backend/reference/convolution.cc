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

// Value. The channels of the input that the outputs of a group read, and those outputs.
struct Groups {
  std::int64_t inputs = 0;   // of one
  std::int64_t outputs = 0;  // of one

  explicit Groups(const Work& w)
      : inputs(w.in.c / w.node.groups), outputs(w.node.shape.c / w.node.groups) {}
  std::int64_t first_input(std::int64_t output) const { return output / outputs * inputs; }
  std::int64_t first_output(std::int64_t input) const { return input / inputs * outputs; }
};

void store(const std::vector<double>& sums, float* out) {
  std::transform(sums.begin(), sums.end(), out, [](double sum) { return static_cast<float>(sum); });
}

// weight (K, C/groups, R, S), bias (K).
void forward(const Work& w) {
  const graph::Node& node = w.node;
  const Shape& shape = node.shape;
  const In weight = w.values("weight");
  const In bias = w.values("bias");
  const std::int64_t in_plane = w.in.h * w.in.w;
  const std::int64_t out_plane = shape.h * shape.w;
  const Groups groups(w);
  std::vector<double> sums(static_cast<std::size_t>(out_plane));
  for (std::int64_t n = 0; n < shape.n; ++n) {
    for (std::int64_t k = 0; k < shape.c; ++k) {
      std::fill(sums.begin(), sums.end(),
                bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<std::size_t>(k)]));
      const float* value = weight.data() + k * groups.inputs * node.kernel * node.kernel;
      const std::int64_t first = groups.first_input(k);
      for (std::int64_t c = first; c < first + groups.inputs; ++c) {
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
  const Groups groups(w);
  std::vector<double> sums(d_weight.size());
  std::vector<double> bias_sums(static_cast<std::size_t>(shape.c));
  for (std::int64_t n = 0; n < shape.n; ++n) {
    double* sum = sums.data();
    for (std::int64_t k = 0; k < shape.c; ++k) {
      const float* gradient = w.d_y.data() + (n * shape.c + k) * out_plane;
      for (std::int64_t i = 0; i < out_plane; ++i)
        bias_sums[static_cast<std::size_t>(k)] += gradient[i];
      const std::int64_t first = groups.first_input(k);
      for (std::int64_t c = first; c < first + groups.inputs; ++c) {
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
  const Groups groups(w);
  std::vector<double> sums(static_cast<std::size_t>(in_plane));
  for (std::int64_t n = 0; n < w.in.n; ++n) {
    for (std::int64_t c = 0; c < w.in.c; ++c) {
      std::fill(sums.begin(), sums.end(), 0.0);
      const std::int64_t first = groups.first_output(c);
      for (std::int64_t k = first; k < first + groups.outputs; ++k) {
        const float* gradient = w.d_y.data() + (n * shape.c + k) * out_plane;
        const float* value = weight.data() + (k * groups.inputs + c % groups.inputs) * cells;
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

const Loops kConv2d{
    .forward = forward, .backward_data = backward_data, .backward_weights = backward_weights};

}  // namespace coxswain::backend::reference
