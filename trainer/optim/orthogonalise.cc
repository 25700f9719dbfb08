#include "trainer/optim/orthogonalise.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "trainer/optim/by_instruction_set.h"
#include "trainer/optim/update_rule.h"

namespace coxswain::optim {

namespace {

constexpr std::size_t kTileRows = 4;
constexpr std::size_t kTileColumns = 32;

std::size_t padded(std::size_t count, std::size_t to) { return (count + to - 1) / to * to; }

// Value. Padded with zeros, so that tiles are whole.
struct Matrix {
  Matrix(std::size_t rows_, std::size_t columns_)
      : rows(rows_),
        columns(columns_),
        stride(padded(columns, kTileColumns)),
        values(padded(rows, kTileRows) * stride) {}
  float* row(std::size_t i) { return values.data() + i * stride; }
  const float* row(std::size_t i) const { return values.data() + i * stride; }

  std::size_t rows, columns, stride;
  std::vector<float> values;
};

Matrix transposed(const Matrix& from) {
  Matrix to(from.columns, from.rows);
  for (std::size_t i = 0; i < from.rows; ++i)
    for (std::size_t j = 0; j < from.columns; ++j) to.row(j)[i] = from.row(i)[j];
  return to;
}

// sum = kept * sum + factor * left x right; each element's products in the order of their index.
struct Multiply {
  const Matrix& left;
  const Matrix& right;
  float factor;
  float kept;
  Matrix& sum;

  [[gnu::always_inline]] void operator()() const {
    for (std::size_t i = 0; i < sum.rows; i += kTileRows)
      for (std::size_t j = 0; j < sum.stride; j += kTileColumns) tile(i, j);
  }

 private:
  [[gnu::always_inline]] void tile(std::size_t first_row, std::size_t first_column) const {
    float sums[kTileRows][kTileColumns] = {};
    for (std::size_t k = 0; k < left.columns; ++k) {
      const float* const from = right.row(k) + first_column;
      for (std::size_t i = 0; i < kTileRows; ++i) {
        const float weight = left.row(first_row + i)[k];
        for (std::size_t j = 0; j < kTileColumns; ++j) sums[i][j] += weight * from[j];
      }
    }
    for (std::size_t i = 0; i < kTileRows; ++i) {
      float* const to = sum.row(first_row + i) + first_column;
      for (std::size_t j = 0; j < kTileColumns; ++j) to[j] = kept * to[j] + factor * sums[i][j];
    }
  }
};

}  // namespace

void orthogonalise(std::span<float> matrix, std::int64_t rows, float epsilon) {
  const auto height = static_cast<std::size_t>(rows);
  const std::size_t width = matrix.size() / height;
  const bool is_tall = height > width;
  const auto norm = static_cast<float>(std::sqrt(sum_of_squares(matrix)));
  const float divisor = std::max(norm, epsilon);
  Matrix given(height, width);
  for (std::size_t i = 0; i < height; ++i)
    for (std::size_t j = 0; j < width; ++j) given.row(i)[j] = matrix[i * width + j] / divisor;

  Matrix x = is_tall ? transposed(given) : given;
  for (int step = 0; step < NewtonSchulz::kSteps; ++step) {
    Matrix gram(x.rows, x.rows);
    by_instruction_set(Multiply{x, transposed(x), 1, 0, gram});
    Matrix change = gram;
    by_instruction_set(Multiply{gram, gram, NewtonSchulz::kFifth, NewtonSchulz::kThird, change});
    Matrix next = x;
    by_instruction_set(Multiply{change, x, 1, NewtonSchulz::kFirst, next});
    x = std::move(next);
  }
  const Matrix result = is_tall ? transposed(x) : std::move(x);
  for (std::size_t i = 0; i < height; ++i)
    std::copy_n(result.row(i), width, matrix.begin() + static_cast<std::ptrdiff_t>(i * width));
}

}  // namespace coxswain::optim
