#pragma once

#include <string>

#include "crds/generator/schema.h"

namespace coxswain::crd {

// YAML of at most 100 columns: whatever fits on a line stands on one, long texts are folded.
std::string to_yaml(const Json& value);

}  // namespace coxswain::crd
