#pragma once

#include <cstdint>
#include <span>

namespace coxswain::optim {

// Muon's (Jordan et al. 2024; torch.optim.Muon). A step: X = a X + (b X X' + c (X X')^2) X, of the
// smaller side's square.
struct NewtonSchulz {
  static constexpr int kSteps = 5;
  static constexpr float kFirst = 3.4445F, kThird = -4.7750F, kFifth = 2.0315F;  // a, b, c
};

// Makes a matrix (rows x columns, row after row) what lies near the closest one with orthogonal
// rows or columns, whichever are fewer: Newton-Schulz steps in float32, which leave its singular
// values within about 0.7 to 1.2. `epsilon`: the least norm that it is divided by. The same bits
// for any instruction set.
void orthogonalise(std::span<float> matrix, std::int64_t rows, float epsilon);

}  // namespace coxswain::optim
