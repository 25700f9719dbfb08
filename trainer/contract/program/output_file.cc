#include "trainer/contract/program/output_file.h"

#include <fmt/format.h>

#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"

namespace coxswain {

namespace {

using std::filesystem::file_type;

// What it is; empty where a file may be made or replaced.
std::string_view obstacle(const std::filesystem::path& output) {
  if (!output.has_filename()) return "no name of a file";
  std::error_code ignored;  // what can't be looked at can't be written either, and says so then
  switch (std::filesystem::symlink_status(output, ignored).type()) {
    case file_type::directory:
      return "a directory";
    case file_type::symlink:
      return "a link";
    case file_type::fifo:
      return "a FIFO";
    case file_type::socket:
      return "a socket";
    case file_type::block:
    case file_type::character:
      return "a device";
    default:
      return "";
  }
}

}  // namespace

void require_output_file(std::string_view flag, const std::filesystem::path& output) {
  constexpr std::size_t kMostCharacters = 300;
  const std::string_view what = obstacle(output);
  if (what.empty()) return;
  throw Error(ExitCode::kUsage,
              fmt::format("{} \"{}\" is {}: name a new file, or one to be replaced", flag,
                          printable(output.native(), kMostCharacters), what));
}

}  // namespace coxswain
