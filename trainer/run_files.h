#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace coxswain {

// Whether a run keeps something of this name beside its checkpoints: LATEST, step-00001200.g7, ...
bool is_name_of_a_run(const std::string& name);

// Throws Error (2), naming `flag`, where what a command writes would take the place of what a run
// keeps: within a checkpoint, or under a name of a run's own.
void require_no_file_of_a_run(std::string_view flag, const std::filesystem::path& output);

}  // namespace coxswain
