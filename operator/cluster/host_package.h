#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace coxswain::cluster {

// What is carried to each host: a folder of links.
struct Package {
  std::filesystem::path folder;  // holds coxswain-trainer, lib/ and perhaps mnist/
  std::string hash;              // of all that is in it, in hexadecimal
  std::int64_t bytes = 0;
};

// Makes it in `folder`: the program, the libraries that it needs but for the C library's own, and
// the digits where they are given. Throws Error(65, 74).
Package make_package(const std::filesystem::path& trainer, const std::filesystem::path& digits,
                     const std::filesystem::path& folder);

// A library a line, as the loader prints those of a program under LD_TRACE_LOADED_OBJECTS. PURE.
std::vector<std::filesystem::path> libraries_to_carry(const std::string& trace);

}  // namespace coxswain::cluster
