#pragma once

#include <functional>
#include <string_view>

namespace coxswain {

// Runs the body of a program and returns its exit code. What it throws becomes one printable line
// on standard error, after `prefix`: an Error with its own code, running out of memory and all else
// with 70. Output that can't be written makes 74 of a success, one line too. A standard descriptor
// that was closed fails whoever uses it, instead of becoming one of the program's own files.
int run_program(std::string_view prefix, const std::function<int()>& body);

}  // namespace coxswain
