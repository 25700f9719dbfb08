#include "trainer/run_files.h"

#include <fmt/format.h>

#include "trainer/checkpoint/format.h"
#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"
#include "trainer/report/run_history.h"

namespace coxswain {

namespace {

// Empty: nothing is lost there.
std::string_view obstacle(const std::filesystem::path& output) {
  if (is_name_of_a_run(output.filename().string()))
    return "has a name that a run gives its own files: name another";
  std::error_code ignored;
  const std::filesystem::path folder = output.has_parent_path() ? output.parent_path() : ".";
  if (std::filesystem::exists(folder / checkpoint::kManifestFile, ignored))
    return "is within a checkpoint: name a file elsewhere";
  return "";
}

}  // namespace

bool is_name_of_a_run(const std::string& name) {
  return checkpoint::is_own_name(name) || name == report::kHistoryFile;
}

void require_no_file_of_a_run(std::string_view flag, const std::filesystem::path& output) {
  constexpr std::size_t kMostCharacters = 300;
  const std::string_view what = obstacle(output);
  if (what.empty()) return;
  throw Error(ExitCode::kUsage,
              fmt::format("{} \"{}\" {}", flag, printable(output.native(), kMostCharacters), what));
}

}  // namespace coxswain
