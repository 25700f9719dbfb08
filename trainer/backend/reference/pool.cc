#include <algorithm>
#include <cmath>
#include <vector>

#include "trainer/backend/reference/operations.h"

namespace coxswain::backend::reference {

namespace {

// Input rows or columns [first, last).
struct Reach {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

// Calls visit(plane, output index, rows, columns) for every output, with the input rows and columns
// that its window covers inside the image.
template <typename Visit>
void for_each_window(const Work& w, const Visit& visit) {
  const graph::Node& node = w.node;
  const auto covered = [&](std::int64_t out, std::int64_t size) {
    const std::int64_t first = out * node.stride - node.pad;
    return Reach{std::max<std::int64_t>(first, 0), std::min(first + node.kernel, size)};
  };
  std::size_t out = 0;
  for (std::int64_t plane = 0; plane < node.shape.n * node.shape.c; ++plane) {
    for (std::int64_t row = 0; row < node.shape.h; ++row) {
      for (std::int64_t column = 0; column < node.shape.w; ++column, ++out) {
        visit(plane, out, covered(row, w.in.h), covered(column, w.in.w));
      }
    }
  }
}

// Calls visit(input index) for every covered cell, row by row.
template <typename Visit>
void for_each_cell(const Work& w, std::int64_t plane, const Reach& rows, const Reach& columns,
                   const Visit& visit) {
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t column = columns.first; column < columns.last; ++column) {
      visit(static_cast<std::size_t>((plane * w.in.h + row) * w.in.w + column));
    }
  }
}

// Padding never wins; of equal values the first counts; a NaN wins.
std::size_t place_of_maximum(const Work& w, std::int64_t plane, const Reach& rows,
                             const Reach& columns) {
  const In x = w.x();
  std::size_t best =
      static_cast<std::size_t>((plane * w.in.h + rows.first) * w.in.w + columns.first);
  for_each_cell(w, plane, rows, columns, [&](std::size_t i) {
    if (x[i] > x[best] || std::isnan(x[i])) best = i;
  });
  return best;
}

// What a mean divides by.
double cells(const graph::Node& node, const Reach& rows, const Reach& columns) {
  if (node.counts_padding) return static_cast<double>(node.kernel) * node.kernel;
  return static_cast<double>((rows.last - rows.first) * (columns.last - columns.first));
}

void store(const std::vector<double>& sums, Out out) {
  std::ranges::transform(sums, out.begin(), [](double sum) { return static_cast<float>(sum); });
}

void max_forward(const Work& w) {
  for_each_window(
      w, [&](std::int64_t plane, std::size_t out, const Reach& rows, const Reach& columns) {
        w.out[out] = w.x()[place_of_maximum(w, plane, rows, columns)];
      });
}

void max_backward(const Work& w) {
  std::vector<double> sums(w.out.size());
  for_each_window(
      w, [&](std::int64_t plane, std::size_t out, const Reach& rows, const Reach& columns) {
        sums[place_of_maximum(w, plane, rows, columns)] += w.d_y[out];
      });
  store(sums, w.out);
}

void average_forward(const Work& w) {
  for_each_window(
      w, [&](std::int64_t plane, std::size_t out, const Reach& rows, const Reach& columns) {
        double sum = 0;
        for_each_cell(w, plane, rows, columns, [&](std::size_t i) { sum += w.x()[i]; });
        w.out[out] = static_cast<float>(sum / cells(w.node, rows, columns));
      });
}

void average_backward(const Work& w) {
  std::vector<double> sums(w.out.size());
  for_each_window(
      w, [&](std::int64_t plane, std::size_t out, const Reach& rows, const Reach& columns) {
        const double share = w.d_y[out] / cells(w.node, rows, columns);
        for_each_cell(w, plane, rows, columns, [&](std::size_t i) { sums[i] += share; });
      });
  store(sums, w.out);
}

void global_average_forward(const Work& w) {
  const auto plane = static_cast<std::size_t>(w.in.h * w.in.w);
  for (std::size_t i = 0; i < w.out.size(); ++i) {
    double sum = 0;
    for (const float value : w.x().subspan(i * plane, plane)) sum += value;
    w.out[i] = static_cast<float>(sum / static_cast<double>(plane));
  }
}

void global_average_backward(const Work& w) {
  const auto plane = static_cast<std::size_t>(w.in.h * w.in.w);
  for (std::size_t i = 0; i < w.d_y.size(); ++i) {
    const double share = w.d_y[i] / static_cast<double>(plane);
    std::ranges::fill(w.out.subspan(i * plane, plane), static_cast<float>(share));
  }
}

}  // namespace

const Loops kMaxPool{.forward = max_forward, .backward_data = max_backward};
const Loops kAvgPool{.forward = average_forward, .backward_data = average_backward};
const Loops kGlobalAvgPool{.forward = global_average_forward,
                           .backward_data = global_average_backward};

}  // namespace coxswain::backend::reference
