#pragma once

#include <cstdint>

#include "trainer/build.h"

// What a checkpoint says of its model. Each throws Error (65) that names the checkpoint.
namespace coxswain {

// What its own configuration says of the model and of how images are prepared.
contract::TrainerConfig config_of(const checkpoint::Loaded& loaded);

// Of the images of its dataset, as they were stored, and their classes.
tensor::Shape shape_of(const checkpoint::Loaded& loaded);
std::int64_t classes_of(const checkpoint::Loaded& loaded);

// Before memory is taken for what a file claims.
void require_same_size(const checkpoint::Loaded& loaded, const graph::Graph& graph);

}  // namespace coxswain
