#pragma once

#include <string>
#include <vector>

namespace coxswain {

struct ConvertOptions {
  std::vector<std::string> files;    // of foreign jobs
  std::vector<std::string> command;  // or the words of a command
  std::string name;
  std::string image;
  bool partial = false;
};

// Prints the TrainingJob on standard output, and on standard error a line for all that was said.
// Throws Error(65) where something has no place, unless `partial`; then nothing is printed.
int convert_job(const ConvertOptions& options);

}  // namespace coxswain
