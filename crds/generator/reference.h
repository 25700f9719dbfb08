#pragma once

#include "crds/generator/schema.h"

namespace coxswain::crd {

// docs/job-fields.md: every field of `spec`, from its schema.
std::string spec_reference(const Json& schema);

}  // namespace coxswain::crd
