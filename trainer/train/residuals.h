#pragma once

#include <functional>
#include <span>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/comm/communicator.h"

namespace coxswain::train {

// Each rank's residuals (compress::encode) in a checkpoint: tensors of the optimizer's file named
// "residual.<rank>.<tensor>". They lie as the flat buffer does; every rank calls these.
bool is_residual(const checkpoint::NamedTensor& tensor);

// All ranks', on rank 0; nothing on the others.
std::vector<checkpoint::NamedTensor> gather_residuals(comm::Communicator& communicator,
                                                      backend::Backend& backend,
                                                      const tensor::ParameterLayout& layout,
                                                      std::span<const float> residuals);

// What `tensors` gives and those.
std::function<checkpoint::Contents()> with_residuals(
    std::function<checkpoint::Contents()> tensors, std::vector<checkpoint::NamedTensor> residuals);

// `contents` is rank 0's, null on the others. Where there are none, or a sum of all is on rank 0
// since the number of ranks is another, a rank has zeros. Throws Error (65) on rank 0 naming the
// tensor that is missing, too many or of another shape.
void restore_residuals(comm::Communicator& communicator, backend::Backend& backend,
                       const tensor::ParameterLayout& layout, const checkpoint::Contents* contents,
                       std::span<float> residuals);

}  // namespace coxswain::train
