#include <fmt/format.h>

#include <filesystem>

#include "trainer/commands.h"
#include "trainer/contract/error.h"
#include "trainer/report/timeline_words.h"
#include "trainer/report_files.h"

namespace coxswain {

namespace {

constexpr std::uintmax_t kMostBytes = 1U << 30;

}  // namespace

int run_timeline(const CommandLine& line) {
  const std::filesystem::path path = line.directory;
  const std::string text = read_report_file("timeline", path, kMostBytes);
  const auto spans = report::parse_timeline(text);
  if (!spans) {
    throw Error(
        ExitCode::kBadInput,
        fmt::format("[timeline] {}: is no timeline as report.timeline writes it", path.string()));
  }
  fmt::print("{}", report::describe_timeline(*spans));
  return 0;
}

}  // namespace coxswain
