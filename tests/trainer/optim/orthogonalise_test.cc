#include "trainer/optim/orthogonalise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "trainer/tensor/philox.h"

namespace coxswain::optim {
namespace {

std::vector<float> random_matrix(std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    const auto words = tensor::philox(1, {.stream = 1, .index = static_cast<std::uint32_t>(i)});
    values[i] = tensor::to_normal(words[0], words[1])[0];
  }
  return values;
}

using Double = std::vector<double>;

// left (m x k) times right (k x n).
Double product(const Double& left, const Double& right, std::size_t m, std::size_t k,
               std::size_t n) {
  Double result(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t l = 0; l < k; ++l) result[i * n + j] += left[i * k + l] * right[l * n + j];
  return result;
}

Double transposed(const Double& matrix, std::size_t rows) {
  const std::size_t columns = matrix.size() / rows;
  Double result(matrix.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) result[j * rows + i] = matrix[i * columns + j];
  return result;
}

// The rule as it is written down, in float64, whichever side is longer.
Double by_the_book(const std::vector<float>& matrix, std::size_t rows) {
  const std::size_t columns = matrix.size() / rows;
  Double x(matrix.begin(), matrix.end());
  double squares = 0;
  for (const double value : x) squares += value * value;
  for (double& value : x) value /= std::sqrt(squares);
  for (int step = 0; step < 5; ++step) {
    const Double gram = product(x, transposed(x, rows), rows, columns, rows);
    const Double cubed = product(gram, x, rows, rows, columns);
    const Double fifth = product(gram, cubed, rows, rows, columns);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = 3.4445 * x[i] - 4.7750 * cubed[i] + 2.0315 * fifth[i];
  }
  return x;
}

TEST(Orthogonalise, is_the_rule_for_wide_tall_square_and_single_rows) {
  for (const auto& [rows, columns] :
       {std::pair{3, 40}, {40, 3}, {33, 33}, {1, 7}, {7, 1}, {16, 9}}) {
    std::vector<float> matrix = random_matrix(static_cast<std::size_t>(rows * columns));
    const Double expected = by_the_book(matrix, static_cast<std::size_t>(rows));
    orthogonalise(matrix, rows, 1e-7F);
    for (std::size_t i = 0; i < matrix.size(); ++i)
      ASSERT_NEAR(matrix[i], expected[i], 1e-4) << rows << " x " << columns << ", number " << i;
  }
}

TEST(Orthogonalise, leaves_rows_that_are_nearly_orthogonal_and_of_length_one) {
  constexpr std::size_t kRows = 6, kColumns = 50;
  std::vector<float> matrix = random_matrix(kRows * kColumns);
  orthogonalise(matrix, kRows, 1e-7F);
  const Double x(matrix.begin(), matrix.end());
  const Double gram = product(x, transposed(x, kRows), kRows, kColumns, kRows);
  for (std::size_t i = 0; i < kRows; ++i)
    for (std::size_t j = 0; j < kRows; ++j)
      EXPECT_NEAR(gram[i * kRows + j], i == j ? 1 : 0, 0.5) << i << ", " << j;
}

TEST(Orthogonalise, leaves_zeros) {
  std::vector<float> zeros(12);
  orthogonalise(zeros, 3, 1e-7F);
  EXPECT_TRUE(std::ranges::all_of(zeros, [](float value) { return value == 0; }));
}

}  // namespace
}  // namespace coxswain::optim
