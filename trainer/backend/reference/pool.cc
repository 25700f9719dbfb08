#include <algorithm>
#include <cmath>
#include <vector>

#include "trainer/backend/reference/kernels.h"

namespace coxswain::backend::reference {

namespace {

// Calls visit(plane, output index, rows, columns) for every output, with the input rows and columns
// that its window covers inside the image.
template <typename Visit>
void for_each_window(const Window& w, const Visit& visit) {
  const auto covered = [&](std::int64_t out, std::int64_t size) {
    const std::int64_t first = out * w.stride - w.pad;
    return Reach{std::max<std::int64_t>(first, 0), std::min(first + w.kernel, size)};
  };
  std::size_t out = 0;
  for (std::int64_t plane = 0; plane < w.out.n * w.out.c; ++plane) {
    for (std::int64_t row = 0; row < w.out.h; ++row) {
      for (std::int64_t column = 0; column < w.out.w; ++column, ++out) {
        visit(plane, out, covered(row, w.in.h), covered(column, w.in.w));
      }
    }
  }
}

// Calls visit(input index) for every covered cell, row by row.
template <typename Visit>
void for_each_cell(const Window& w, std::int64_t plane, const Reach& rows, const Reach& columns,
                   const Visit& visit) {
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t column = columns.first; column < columns.last; ++column) {
      visit(static_cast<std::size_t>((plane * w.in.h + row) * w.in.w + column));
    }
  }
}

std::size_t place_of_maximum(const Window& w, In x, std::int64_t plane, const Reach& rows,
                             const Reach& columns) {
  std::size_t best =
      static_cast<std::size_t>((plane * w.in.h + rows.first) * w.in.w + columns.first);
  for_each_cell(w, plane, rows, columns, [&](std::size_t i) {
    if (x[i] > x[best] || std::isnan(x[i])) best = i;
  });
  return best;
}

double cells(const Reach& rows, const Reach& columns) {
  return static_cast<double>((rows.last - rows.first) * (columns.last - columns.first));
}

void store(const std::vector<double>& sums, Out out) {
  std::ranges::transform(sums, out.begin(), [](double sum) { return static_cast<float>(sum); });
}

}  // namespace

void max_pool_forward(const Window& w, In x, Out y) {
  for_each_window(
      w, [&](std::int64_t plane, std::size_t out, const Reach& rows, const Reach& columns) {
        y[out] = x[place_of_maximum(w, x, plane, rows, columns)];
      });
}

void max_pool_backward(const Window& w, In x, In d_y, Out d_x) {
  std::vector<double> sums(d_x.size());
  for_each_window(
      w, [&](std::int64_t plane, std::size_t out, const Reach& rows, const Reach& columns) {
        sums[place_of_maximum(w, x, plane, rows, columns)] += d_y[out];
      });
  store(sums, d_x);
}

void avg_pool_forward(const Window& w, In x, Out y) {
  for_each_window(
      w, [&](std::int64_t plane, std::size_t out, const Reach& rows, const Reach& columns) {
        double sum = 0;
        for_each_cell(w, plane, rows, columns, [&](std::size_t i) { sum += x[i]; });
        y[out] = static_cast<float>(sum / cells(rows, columns));
      });
}

void avg_pool_backward(const Window& w, In d_y, Out d_x) {
  std::vector<double> sums(d_x.size());
  for_each_window(
      w, [&](std::int64_t plane, std::size_t out, const Reach& rows, const Reach& columns) {
        const double share = d_y[out] / cells(rows, columns);
        for_each_cell(w, plane, rows, columns, [&](std::size_t i) { sums[i] += share; });
      });
  store(sums, d_x);
}

void global_avg_pool_forward(const Shape& in, In x, Out y) {
  const auto plane = static_cast<std::size_t>(in.h * in.w);
  for (std::size_t i = 0; i < y.size(); ++i) {
    double sum = 0;
    for (const float value : x.subspan(i * plane, plane)) sum += value;
    y[i] = static_cast<float>(sum / static_cast<double>(plane));
  }
}

void global_avg_pool_backward(const Shape& in, In d_y, Out d_x) {
  const auto plane = static_cast<std::size_t>(in.h * in.w);
  for (std::size_t i = 0; i < d_y.size(); ++i) {
    const double share = d_y[i] / static_cast<double>(plane);
    std::ranges::fill(d_x.subspan(i * plane, plane), static_cast<float>(share));
  }
}

}  // namespace coxswain::backend::reference
