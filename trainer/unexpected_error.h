#pragma once

#include <exception>
#include <string>

namespace coxswain {

// What to say of an exception that is no Error: a limit of the machine, or a mistake of ours.
std::string words_of(const std::exception& unexpected);

}  // namespace coxswain
