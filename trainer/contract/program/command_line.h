#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace coxswain {

// Parses the arguments. Returns the help where it was asked for. Throws Error(2) with what is wrong
// and what was probably meant.
//
// A flag that takes a value never takes the next flag for it, nor an empty one unless it is among
// `may_be_empty` ("--metrics-address"): a shell writes `--flag=` for a variable that isn't set.
std::optional<std::string> parse_command_line(
    CLI::App& app, int argc, const char* const* argv,
    std::initializer_list<std::string_view> may_be_empty = {});

}  // namespace coxswain
