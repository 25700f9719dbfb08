#pragma once

#include <string>
#include <vector>

#include "operator/convert/launch.h"

// A program that the trainer doesn't have: it goes on as it is, in its own image.
namespace coxswain::convert {

// What the program needs of the operator: who starts its ranks and whose variables they read.
void set_up(const Launch& launch, Draft& draft);

// The command of one rank, or of one pod where the launcher stays in it.
std::vector<std::string> command_of(const Launch& launch);

// Fills the pods' templates: one container with the command.
void fill_templates(const Launch& launch, const std::string& image, Draft& draft);

// Names of strategies among its words: what they are here.
void explain_strategies(const std::vector<std::string>& words, Draft& draft);

// Whether the operator sets this variable itself.
bool is_set_by_operator(std::string_view variable);

}  // namespace coxswain::convert
