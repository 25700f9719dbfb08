#pragma once

#include <cstdint>
#include <span>

namespace coxswain::optim {

// Makes a matrix (rows x columns, row after row) what lies near the closest one with orthogonal
// rows or columns, whichever are fewer: five Newton-Schulz steps with Muon's coefficients (Jordan
// et al. 2024; torch.optim.Muon in float32), which leave its singular values within about 0.7 to
// 1.2. `epsilon`: the least norm that it is divided by. The same bits for any instruction set.
void orthogonalise(std::span<float> matrix, std::int64_t rows, float epsilon);

}  // namespace coxswain::optim
