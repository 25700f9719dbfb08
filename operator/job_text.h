#pragma once

#include <filesystem>
#include <string>

namespace coxswain {

// The bytes of a job's file ("-": standard input), one more than the reader takes at most. Throws
// Error(65) when it can't be read, is a directory, or is a pipe that nobody writes into.
std::string read_job_text(const std::filesystem::path& file);

}  // namespace coxswain
