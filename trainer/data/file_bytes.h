#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace coxswain::data {

// A path as messages show it: printable ASCII on one line, at most 80 characters, of which the end
// is kept.
std::string shown(const std::filesystem::path& path);

// Throws Error (65): "[data] PATH: why".
[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why);

// Throws Error (65) when `directory` is missing, unreadable or no directory; `expected` says what
// it should hold, `key` where it is set.
void require_directory(const std::filesystem::path& directory, const std::string& expected,
                       std::string_view key);

// Whether a path lies in a folder or is it; both without links (fs::canonical).
bool lies_within(const std::filesystem::path& folder, const std::filesystem::path& path);

// Whether there is something of this name. Throws Error (65) when that cannot be told.
bool is_present(const std::filesystem::path& path);

// Value. What tells a file's content from another that it had.
struct FileStamp {
  std::uint64_t bytes = 0;
  std::int64_t written = 0;  // nanoseconds since 1970
  bool operator==(const FileStamp&) const = default;
};
FileStamp stamp_of(const struct stat& status);

// Value. What came of a file; with a problem there are no bytes.
struct FileContent {
  std::vector<std::uint8_t> bytes;
  std::string problem;  // "No such file or directory"
  FileStamp stamp;
  std::int64_t changed = 0;  // its content, name or rights; nanoseconds since 1970
};

// Now: what was changed before has no later time, though a change may have an earlier one, by a
// tick of the kernel's clock.
std::int64_t file_time();

// The whole content of a regular file, or why this file alone can't be had: it is missing, no
// regular file, may not be read or changes. Never waits for a FIFO's writer; throws Error (74) when
// the volume fails.
FileContent content_of(const std::filesystem::path& path);

// The same; throws Error (65) naming the file for what is its problem.
std::vector<std::uint8_t> read_file(const std::filesystem::path& path);

// Fills `bytes` from an open file. Throws Error (74) when reading fails, (65) when the file ends
// before, because it changed since its size was asked.
void read_exactly(int descriptor, std::span<std::uint8_t> bytes, const std::filesystem::path& path);

// Makes a file of these bytes, or leaves what was there: never a part. Throws Error (74).
void write_whole(const std::filesystem::path& path, std::span<const std::uint8_t> bytes);

}  // namespace coxswain::data
