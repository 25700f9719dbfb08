#pragma once

#include "trainer/backend/onednn/lanes_convolution.h"
#include "trainer/backend/onednn/plan.h"

// Convolution and max-pool with the batch in the vector lanes, see lanes_convolution.h.
namespace coxswain::backend::onednn {

void record_lanes_forward(Plan& plan, const Step& step, const LanesConvolution& conv);
void record_lanes_weights(Plan& plan, const Step& step, const LanesConvolution& conv);
void record_lanes_data(Plan& plan, const Step& step, const LanesConvolution& conv);

// Whether a pool can run in lanes: a max-pool of whole tiles.
bool pools_in_lanes(const Node& node);
// Returns the places of the maxima, which backward takes.
Tensor record_lanes_pool_forward(Plan& plan, const Step& step);
void record_lanes_pool_backward(Plan& plan, const Step& step, const Tensor& places);

}  // namespace coxswain::backend::onednn
