#pragma once

#include <string>
#include <string_view>

#include "trainer/report/run_history.h"

// PURE.
namespace coxswain::report {

// Text as HTML shows it, and nothing more than text.
std::string escaped(std::string_view text);

// One page: curves, speed, attempts and how they ended, what `timeline` says (describe_timeline();
// empty: nothing), the configuration, the fingerprint. It fetches nothing, runs nothing, and is
// light or dark as its reader wants. Long runs are thinned: it stays below 500 KB.
std::string render_html(const RunHistory& history, std::string_view timeline = {});

}  // namespace coxswain::report
