#pragma once

#include <filesystem>
#include <string_view>

namespace coxswain {

// Whether a file's name ends so (".onnx"), in capitals or not.
bool has_extension(const std::filesystem::path& file, std::string_view extension);

}  // namespace coxswain
