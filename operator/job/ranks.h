#pragma once

#include <set>
#include <string>
#include <string_view>

namespace coxswain::job {

// A set of worker indices as the status stores it: "0-3,7". Text that is none reads as empty.
std::set<int> parse_ranks(std::string_view text);
std::string to_text(const std::set<int>& ranks);

}  // namespace coxswain::job
