#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainer/checkpoint/file_system.h"

namespace coxswain::checkpoint {

// Thrown where the process is killed; not an error that anything handles.
struct Killed {};

// A real file system that numbers its calls from 0, and breaks where it is told to. What is synced
// is only remembered: the machine under the test does not lose power.
class FaultyFileSystem : public FileSystem {
 public:
  static constexpr int kNever = std::numeric_limits<int>::max();

  int kill_at = kNever;     // half of a write's bytes arrive; every later call throws too
  bool power_loss = false;  // the kill also loses, at random, what was not synced
  int fail_at = kNever;     // this call fails with `reason` ...
  bool fail_on = false;     // ... and every later one
  std::string fail_call;    // if set, all calls of this name fail
  std::string reason = "Input/output error";
  std::uint64_t space = std::numeric_limits<std::uint64_t>::max();  // bytes until ENOSPC
  std::size_t longest_write = std::numeric_limits<std::size_t>::max();
  std::function<void(const std::string& call)> before;  // runs before each call
  std::mt19937_64 random;

  int calls = 0;

  void make_directories(const Path& path) override;
  bool make_directory(const Path& path) override;
  bool is_directory(const Path& path) override;
  std::optional<std::vector<std::string>> list(const Path& path) override;
  OpenFile create(const Path& path) override;
  OpenFile open(const Path& path) override;
  std::size_t write(OpenFile& file, std::span<const std::byte> bytes) override;
  std::size_t read(OpenFile& file, std::span<std::byte> bytes) override;
  void sync(OpenFile& file) override;
  void close(OpenFile& file) override;
  void sync_directory(const Path& path) override;
  void rename(const Path& from, const Path& to) override;
  void remove(const Path& path) override;

 private:
  void enter(const std::string& call, const Path& path);
  void lose_power();

  PosixFileSystem real_;
  bool killed_ = false;
  std::set<Path> unsynced_files_;
  std::set<Path> unsynced_entries_;
  std::vector<std::pair<Path, Path>> unsynced_renames_;
};

}  // namespace coxswain::checkpoint
