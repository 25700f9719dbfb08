#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace coxswain {

// Text from outside, fit for a terminal and for one line of a message: what a terminal could obey
// (control characters, line separators, changes of direction) and bytes that are not UTF-8 are
// written as \n, \t or \xNN. Beyond `limit` characters it is cut, and ends in "...". The
// characters of `also` get a backslash.
std::string printable(std::string_view text, std::size_t limit, std::string_view also = {});

// The same text with bytes that are not UTF-8 written as \xNN: what JSON keeps unchanged.
std::string well_formed(std::string_view text);

// At most `limit` bytes: what is longer is cut between two characters and ends in `mark`.
std::string shortened(std::string_view text, std::size_t limit, std::string_view mark = {});

// Bytes of the well-formed UTF-8 sequence at the front, 0 when there is none (RFC 3629, section 4).
std::size_t utf8_length(std::string_view text);

}  // namespace coxswain
