#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "trainer/build.h"
#include "trainer/commands.h"
#include "trainer/contract/printable.h"
#include "trainer/contract/program/output_file.h"
#include "trainer/data/file_bytes.h"
#include "trainer/data/folder_index.h"
#include "trainer/data/pack.h"
#include "trainer/run_files.h"

namespace coxswain {

namespace {

namespace fs = std::filesystem;

std::string shown_whole(const fs::path& path) { return printable(path.native(), kLongestPath); }

// A line that is written over, on a terminal alone.
data::Progress progress_of(const std::string& what) {
  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  return [=](std::int64_t done, std::int64_t of) {
    if (!is_terminal) return;
    fmt::print(stderr, "\r{}: {} of {} images{}", shown_whole(what), done, of,
               done == of ? "\n" : "");
  };
}

contract::TrainerConfig source_of(const CommandLine& line) {
  contract::TrainerConfig config;
  config.data.workers = line.pack.workers;
  if (line.pack.from == "mnist" || line.pack.from == "cifar10") {
    config.data.format = line.pack.from == "mnist" ? DataFormat::kMnist : DataFormat::kCifar10;
    config.data.path = line.pack.data;
    if (!line.pack.data.empty())
      data::require_directory(line.pack.data, line.pack.from + "'s files", "--data");
  } else {
    config.data.format = DataFormat::kImageFolder;
    config.data.path = line.pack.from;
    data::require_directory(line.pack.from, "train/ and val/, or name mnist or cifar10", "--from");
  }
  return config;
}

data::PackOptions options_of(const CommandLine& line, const contract::TrainerConfig& source) {
  data::PackOptions options;
  const auto encoding = value_of(words_of(data::Encoding{}), line.pack.encoding);
  const bool is_folder = source.data.format == DataFormat::kImageFolder;
  // What was never compressed with a loss is not, either.
  options.encoding = encoding.value_or(is_folder ? data::Encoding::kKeep : data::Encoding::kPng);
  if (options.encoding == data::Encoding::kKeep && !is_folder)
    options.encoding = data::Encoding::kPng;
  options.shorter_side = line.pack.resize;
  options.quality = line.pack.quality;
  options.shards = line.pack.shards;
  options.workers = line.pack.workers > 0 ? line.pack.workers : loader_threads(source, 1);
  return options;
}

void pack_part(const CommandLine& line, bool is_training, const fs::path& to) {
  const contract::TrainerConfig source = source_of(line);
  for (const fs::path& file : {to, fs::path(to).replace_extension(".idx")}) {
    require_output_file("--to", file);
    require_no_file_of_a_run("--to", file);
  }
  const auto dataset = is_training ? open_training_set(source) : open_test_set(source);
  const auto files = data::pack(*dataset, to, options_of(line, source), progress_of(to.filename()));
  std::uintmax_t bytes = 0;
  for (const fs::path& file : files) bytes += fs::file_size(file);
  fmt::print("{}{}: {} images in {} classes, {:.1f} MB\n", shown_whole(files.front()),
             files.size() > 1 ? fmt::format(" and {} more", files.size() - 1) : "", dataset->size(),
             dataset->classes(), static_cast<double>(bytes) / 1e6);
}

int check(const std::string& file, int workers) {
  const auto found = data::check_records(file, std::max(1, workers), progress_of(file));
  fmt::print("{}: {} records in {} classes", shown_whole(file), found.records,
             found.classes.size());
  for (const auto& [kind, count] : found.kinds) fmt::print(", {} {}", count, kind);
  fmt::print("\n");
  if (found.bad == 0) return 0;
  for (const std::string& bad : found.first_bad) fmt::print("  {}\n", bad);
  throw Error(ExitCode::kBadInput, fmt::format("[pack] {}: {} of {} records can't be read", file,
                                               found.bad, found.records));
}

int write_indexes(const fs::path& path) {
  data::require_directory(path, "train/ and val/", "--index");
  for (const char* part : {"train", "val"}) {
    const fs::path root = path / part;
    if (!data::is_present(root)) continue;
    const data::FolderIndex index = data::list_folder(root);
    data::write_whole(data::index_file(root), encode(index));
    fmt::print("{}: {} images in {} classes\n", shown_whole(data::index_file(root)), index.size(),
               index.classes().size());
  }
  return 0;
}

}  // namespace

int run_pack(const CommandLine& line) {
  if (!line.pack.check.empty()) return check(line.pack.check, line.pack.workers);
  if (!line.pack.index.empty()) return write_indexes(line.pack.index);
  if (line.pack.from.empty() || line.pack.to.empty())
    throw Error(ExitCode::kUsage, "pack needs --from and --to, or --check, or --index");
  const fs::path to = line.pack.to;
  if (to.extension() == ".rec") {
    pack_part(line, line.pack.part == "train", to);
    return 0;
  }
  data::require_directory(to, "room for train.rec and val.rec, or name a .rec file", "--to");
  pack_part(line, true, to / "train.rec");
  pack_part(line, false, to / "val.rec");
  return 0;
}

}  // namespace coxswain
