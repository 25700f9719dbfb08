#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "trainer/checkpoint/export.h"
#include "trainer/commands.h"
#include "trainer/contract/error.h"
#include "trainer/report/html_report.h"
#include "trainer/report_files.h"

namespace coxswain {

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostHistoryBytes = 256U << 20;

std::string read_history(const fs::path& directory) {
  const fs::path path = directory / report::kHistoryFile;
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[report] {}: {}; give the directory of a run's checkpoints",
                            path.string(), error ? error.message() : "can't be read"));
  }
  if (size > kMostHistoryBytes) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[report] {}: {} bytes are no history of a run", path.string(), size));
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

fs::path write_html_report(const fs::path& directory, const fs::path& output) {
  const report::RunHistory history = report::parse_history(read_history(directory));
  if (history.attempts.empty()) {
    throw Error(ExitCode::kBadInput, fmt::format("[report] {}: tells of no attempt",
                                                 (directory / report::kHistoryFile).string()));
  }
  const fs::path target = output.empty() ? directory / "report.html" : output;
  fs::path aside = target;
  aside += ".new";
  std::ofstream file(aside, std::ios::binary);
  file << report::render_html(history);
  file.close();
  std::error_code error;
  if (file) fs::rename(aside, target, error);
  if (!file || error) {
    std::error_code ignored;
    fs::remove(aside, ignored);
    throw Error(ExitCode::kVolume, fmt::format("[report] {}: {}", target.string(),
                                               error ? error.message() : "can't be written"));
  }
  return target;
}

report::RunHistory history_of(const fs::path& directory) {
  try {
    return report::parse_history(read_history(directory));
  } catch (const Error&) {
    return {};
  }
}

int run_report(const CommandLine& line) {
  if (!line.output.empty()) checkpoint::require_replaceable(line.output);
  fmt::print("{}\n", write_html_report(line.directory, line.output).string());
  return 0;
}

}  // namespace coxswain
