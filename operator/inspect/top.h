#pragma once

#include <string>

#include "operator/inspect/sighting.h"
#include "trainer/contract/worker/ranks_page.h"

namespace coxswain::inspect {

// PURE: a table of a job's ranks, below where it stands. `lines`: that it may have; of more ranks
// the busiest are shown. Ends with an end of line.
std::string top_text(const Sighting& seen, const contract::RanksPage& ranks, int lines);

}  // namespace coxswain::inspect
