#pragma once

#include <string>

#include "operator/inspect/sighting.h"

namespace coxswain::inspect {

// PURE: the story of a job in sentences: where it stands, what holds it up, what happened in each
// attempt and why the attempt ended, by its first cause. Ends with an end of line.
std::string describe(const Sighting& seen);

}  // namespace coxswain::inspect
