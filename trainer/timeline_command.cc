#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "trainer/commands.h"
#include "trainer/contract/error.h"
#include "trainer/report/timeline_words.h"

namespace coxswain {

namespace {

constexpr std::uintmax_t kMostBytes = 1U << 30;

}  // namespace

int run_timeline(const CommandLine& line) {
  const std::filesystem::path path = line.directory;
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file || size > kMostBytes) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[timeline] {}: {}", path.string(),
                            error ? error.message() : "can't be read, or is above 1 GiB"));
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
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
