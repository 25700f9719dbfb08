#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/file_system.h"

namespace coxswain::checkpoint {

// Value. A verified checkpoint, and what was passed over to find it: the newest 5, and how many
// more.
struct Loaded {
  std::filesystem::path path;
  std::int64_t generation = 0;
  Contents contents;
  std::vector<std::string> refused;  // "step-00000200.g1: model.safetensors: ...", newest first
};

// kLast: those alone that were written since a run last began without resuming. What a restarted
// attempt of such a run resumes from.
enum class Runs { kAll, kLast };

// The uid of the job whose run that was, "" if it was not known; nothing when no run did so.
std::optional<std::string> job_of_last_run(const std::filesystem::path& directory);

// The greatest (generation, step) whose manifest and checksums verify; nothing for a directory
// without checkpoints. Throws Error when there are checkpoints but not one of them can be had,
// naming the reasons: 65 when every one is damaged, 74 when the volume failed at one. Never loads a
// part of one, and never follows links out of the directory.
std::optional<Loaded> load_latest(FileSystem& files, const std::filesystem::path& directory,
                                  Runs runs = Runs::kAll);
std::optional<Loaded> load_latest(const std::filesystem::path& directory, Runs runs = Runs::kAll);

// The checkpoint of these runs that LATEST names, where it is gone: somebody took it away. Nothing
// where LATEST names none: it is a hint.
std::optional<std::string> lost_latest(const std::filesystem::path& directory,
                                       Runs runs = Runs::kAll);

// The newest, as above and of any run, whose state is what is looked for; damaged ones are passed
// over. Nothing when there is none. Throws Error (74) when the volume failed at one.
std::optional<Loaded> load_where(const std::filesystem::path& directory,
                                 const std::function<bool(const State&)>& is_looked_for);

// One checkpoint folder, or the newest of a directory that holds several. Throws Error (65) also
// for one without any.
Loaded load_from(const std::filesystem::path& path);

// One checkpoint folder, e.g. for `eval` and `export`. Throws Error with the file and the reason:
// 65 for what it holds, 74 when reading fails.
Contents load(FileSystem& files, const std::filesystem::path& checkpoint);
Contents load(const std::filesystem::path& checkpoint);

// Reads a folder and compares sizes and checksums, keeping nothing. Throws as load does.
void verify(FileSystem& files, const std::filesystem::path& checkpoint);

}  // namespace coxswain::checkpoint
