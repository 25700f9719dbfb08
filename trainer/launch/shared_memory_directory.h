#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace coxswain::launch {

// What Open MPI makes a segment of, for each rank (btl_vader_segment_size). Its pages are taken as
// they are used: a rank that finds no room then dies of SIGBUS.
inline constexpr std::uint64_t kSegmentBytes = 4U << 20;

// Resource. A directory for what ranks of one launch share, in the first of `parents` that has room
// for `bytes`. Killed ranks leave their segments behind: they go with the directory, or, if this
// process is killed too, with the next one that is made. Empty path where none of them can be used.
class SharedMemoryDirectory {
 public:
  SharedMemoryDirectory(const std::vector<std::filesystem::path>& parents, std::uint64_t bytes);
  ~SharedMemoryDirectory();
  SharedMemoryDirectory(const SharedMemoryDirectory&) = delete;
  SharedMemoryDirectory& operator=(const SharedMemoryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace coxswain::launch
