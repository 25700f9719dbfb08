#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace coxswain::checkpoint {

// Resource. An open file; closes itself. `bytes` is its size when it was opened.
struct OpenFile {
  OpenFile(int opened, std::filesystem::path opened_path, std::uint64_t size)
      : descriptor(opened), path(std::move(opened_path)), bytes(size) {}
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept
      : descriptor(std::exchange(other.descriptor, -1)),
        path(std::move(other.path)),
        bytes(other.bytes) {}
  OpenFile& operator=(OpenFile&&) = delete;

  int descriptor;
  std::filesystem::path path;
  std::uint64_t bytes;
};

// Interface. What checkpoints ask of a file system: the one door, so that tests can make every call
// fail. Throws Error (74) that names the call, the path and the system's reason.
class FileSystem {
 public:
  using Path = std::filesystem::path;

  virtual ~FileSystem() = default;
  virtual void make_directories(const Path& path) = 0;
  virtual bool make_directory(const Path& path) = 0;  // false: something of this name exists
  virtual bool is_directory(const Path& path) = 0;    // and not a link to one
  // Nothing: there is no such. Error (65) when it is no directory.
  virtual std::optional<std::vector<std::string>> list(const Path& path) = 0;
  virtual OpenFile create(const Path& path) = 0;  // for writing; must not exist
  // For reading. Error (65) unless it is a regular file, and no link to one.
  virtual OpenFile open(const Path& path) = 0;
  virtual std::size_t write(OpenFile& file, std::span<const std::byte> bytes) = 0;  // maybe less
  virtual std::size_t read(OpenFile& file, std::span<std::byte> bytes) = 0;  // 0: end of the file
  virtual void sync(OpenFile& file) = 0;
  virtual void close(OpenFile& file) = 0;
  virtual void sync_directory(const Path& path) = 0;
  virtual void rename(const Path& from, const Path& to) = 0;
  virtual void remove(const Path& path) = 0;  // a file or an empty directory
};

// The real one.
class PosixFileSystem : public FileSystem {
 public:
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
};

}  // namespace coxswain::checkpoint
