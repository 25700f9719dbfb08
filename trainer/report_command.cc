#include <fmt/format.h>

#include <span>

#include "trainer/commands.h"
#include "trainer/contract/config/config_reader.h"
#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"
#include "trainer/contract/program/output_file.h"
#include "trainer/data/file_bytes.h"
#include "trainer/report/html_report.h"
#include "trainer/report/timeline_words.h"
#include "trainer/report_files.h"
#include "trainer/run_files.h"

namespace coxswain {

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostHistoryBytes = 256U << 20;
constexpr std::uintmax_t kMostTimelineBytes = 64U << 20;

std::string read_history(const fs::path& directory) {
  return read_report_file("report", directory / report::kHistoryFile, kMostHistoryBytes,
                          "; give the directory of a run's checkpoints");
}

// What the timeline says that the run was asked for; nothing where none is there.
std::string timeline_words(const fs::path& directory, const std::string& configuration) {
  try {
    const auto config = contract::read_config(configuration, "history.jsonl", {}).config;
    if (config.timeline.empty()) return "";
    const auto spans = report::parse_timeline(
        read_report_file("report", directory / config.timeline, kMostTimelineBytes));
    return spans ? report::describe_timeline(*spans) : "";
  } catch (const Error&) {  // no file yet, or a configuration of another version
    return "";
  }
}

}  // namespace

std::string read_report_file(std::string_view command, const fs::path& file,
                             std::uintmax_t most_bytes, std::string_view advice) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[{}] {}: {}{}", command, file.string(), why, advice));
  };
  std::error_code unknown;  // reading says what
  const std::uintmax_t size = fs::file_size(file, unknown);
  if (!unknown && size > most_bytes)
    refuse(fmt::format("{} bytes long, the limit is {}", size, most_bytes));
  const data::FileContent content = data::content_of(file);
  if (!content.problem.empty()) refuse(content.problem);
  return {content.bytes.begin(), content.bytes.end()};
}

fs::path write_html_report(const fs::path& directory, const fs::path& output) {
  const report::RunHistory history = report::parse_history(read_history(directory));
  if (history.attempts.empty()) {
    throw Error(ExitCode::kBadInput, fmt::format("[report] {}: tells of no attempt",
                                                 (directory / report::kHistoryFile).string()));
  }
  const fs::path target = output.empty() ? directory / "report.html" : output;
  const std::string page = report::render_html(
      history, timeline_words(directory, history.attempts.back().configuration));
  data::write_whole(target,
                    std::span(reinterpret_cast<const std::uint8_t*>(page.data()), page.size()));
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
  if (!line.output.empty()) {
    require_output_file("--output", line.output);
    require_no_file_of_a_run("--output", line.output);
  }
  const fs::path written = write_html_report(line.directory, line.output);
  fmt::print("{}\n", printable(written.native(), kLongestPath));
  return 0;
}

}  // namespace coxswain
