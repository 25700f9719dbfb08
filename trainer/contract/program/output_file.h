#pragma once

#include <filesystem>
#include <string_view>

namespace coxswain {

// Throws Error (2), naming `flag`, where a command may neither make nor replace a file of this
// name: it is no name of a file, or what is there is none. A rename would put a file in the place
// of a link, a FIFO or a device.
void require_output_file(std::string_view flag, const std::filesystem::path& output);

}  // namespace coxswain
