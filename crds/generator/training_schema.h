#pragma once

#include "crds/generator/schema.h"

namespace coxswain::crd {

// `spec.training`, from the table of the trainer's configuration. It takes unknown fields, so that
// the operator can report them with the nearest known one.
Json training_schema();

}  // namespace coxswain::crd
