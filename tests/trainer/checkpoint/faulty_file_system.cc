#include "tests/trainer/checkpoint/faulty_file_system.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/trainer/checkpoint/sample_checkpoint.h"
#include "trainer/contract/error.h"

namespace coxswain::checkpoint {

namespace fs = std::filesystem;

std::string read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

void FaultyFileSystem::enter(const std::string& call, const Path& path) {
  if (killed_) throw Killed();
  if (before) before(call);
  const int index = calls++;
  if (index == kill_at) {
    killed_ = true;
    if (power_loss) lose_power();
    throw Killed();
  }
  if (index == fail_at || (fail_on && index > fail_at) || call == fail_call) {
    throw Error(ExitCode::kVolume, "cannot " + call + " " + path.string() + ": " + reason);
  }
}

// Each thing that was not synced is kept or lost: renames are undone, entries vanish, files are
// cut.
void FaultyFileSystem::lose_power() {
  std::error_code ignored;
  const auto lost = [&] { return random() % 2 == 0; };
  for (const Path& file : unsynced_files_) {
    const auto size = fs::file_size(file, ignored);
    if (!ignored && lost()) fs::resize_file(file, random() % (size + 1), ignored);
  }
  for (const Path& entry : unsynced_entries_) {
    if (lost()) fs::remove_all(entry, ignored);
  }
  std::ranges::reverse(unsynced_renames_);
  for (const auto& [from, to] : unsynced_renames_) {
    if (lost()) fs::rename(to, from, ignored);
  }
}

void FaultyFileSystem::make_directories(const Path& path) {
  enter("make", path);
  real_.make_directories(path);
}

bool FaultyFileSystem::make_directory(const Path& path) {
  enter("make", path);
  unsynced_entries_.insert(path);
  return real_.make_directory(path);
}

bool FaultyFileSystem::is_directory(const Path& path) {
  enter("look at", path);
  return real_.is_directory(path);
}

std::optional<std::vector<std::string>> FaultyFileSystem::list(const Path& path) {
  enter("list", path);
  return real_.list(path);
}

OpenFile FaultyFileSystem::create(const Path& path) {
  enter("create", path);
  unsynced_entries_.insert(path);
  unsynced_files_.insert(path);
  return real_.create(path);
}

OpenFile FaultyFileSystem::open(const Path& path) {
  enter("open", path);
  return real_.open(path);
}

std::size_t FaultyFileSystem::write(OpenFile& file, std::span<const std::byte> bytes) {
  if (calls == kill_at && !killed_) real_.write(file, bytes.first(bytes.size() / 2));
  enter("write", file.path);
  if (space == 0) {
    throw Error(ExitCode::kVolume,
                "cannot write " + file.path.string() + ": No space left on device");
  }
  const std::size_t count =
      std::min({bytes.size(), longest_write, static_cast<std::size_t>(space)});
  space -= count;
  return real_.write(file, bytes.first(count));
}

std::size_t FaultyFileSystem::read(OpenFile& file, std::span<std::byte> bytes) {
  enter("read", file.path);
  return real_.read(file, bytes.first(std::min(bytes.size(), longest_write)));
}

void FaultyFileSystem::sync(OpenFile& file) {
  enter("sync", file.path);
  unsynced_files_.erase(file.path);
}

void FaultyFileSystem::close(OpenFile& file) {
  enter("close", file.path);
  real_.close(file);
}

void FaultyFileSystem::sync_directory(const Path& path) {
  enter("sync", path);
  std::erase_if(unsynced_entries_, [&](const Path& entry) { return entry.parent_path() == path; });
  std::erase_if(unsynced_renames_, [&](const auto& r) { return r.second.parent_path() == path; });
}

void FaultyFileSystem::rename(const Path& from, const Path& to) {
  enter("rename", from);
  // What is inside moves along; only the folder's own entry is new.
  if (unsynced_entries_.erase(from) > 0) unsynced_entries_.insert(to);
  unsynced_renames_.emplace_back(from, to);
  real_.rename(from, to);
}

void FaultyFileSystem::remove(const Path& path) {
  enter("remove", path);
  real_.remove(path);
}

}  // namespace coxswain::checkpoint
