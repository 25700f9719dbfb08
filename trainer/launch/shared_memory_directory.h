#pragma once

#include <filesystem>

namespace coxswain::launch {

// Resource. A directory in /dev/shm for what ranks of one launch share. Killed ranks leave their
// segments behind: they go with the directory, or, if this process is killed too, with the next
// one that is made. Empty path where there is no /dev/shm.
class SharedMemoryDirectory {
 public:
  explicit SharedMemoryDirectory(const std::filesystem::path& parent = "/dev/shm");
  ~SharedMemoryDirectory();
  SharedMemoryDirectory(const SharedMemoryDirectory&) = delete;
  SharedMemoryDirectory& operator=(const SharedMemoryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace coxswain::launch
