#pragma once

#include <string>
#include <string_view>

namespace coxswain::contract {

// Text from outside, fit for one line of an error: in double quotes, escaped, cut to 80 characters.
std::string quote(std::string_view text);

// The place of the first byte that is not UTF-8, or npos.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace coxswain::contract
