#pragma once

#include <filesystem>
#include <string_view>

namespace coxswain {

// Throws Error (2), naming `flag`, where what a command writes would take the place of what a run
// keeps: within a checkpoint, or under a name of a run's own (LATEST, step-00001200.g7, ...).
void require_no_file_of_a_run(std::string_view flag, const std::filesystem::path& output);

}  // namespace coxswain
