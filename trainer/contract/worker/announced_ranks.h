#pragma once

#include <chrono>
#include <filesystem>
#include <set>
#include <vector>

#include "trainer/contract/worker/child_process.h"

namespace coxswain::contract {

// Resource. The supervisors of ranks that somebody else started on this machine, found by the files
// in which they announce themselves (run_files.h).
class AnnouncedRanks {
 public:
  struct Rank {
    int rank = 0;
    std::filesystem::path worker_directory;
    FileDescriptor process;
    std::set<int> sent;  // signals
  };

  // `count`: how many there will be in `worker_directories` together.
  AnnouncedRanks(std::vector<std::filesystem::path> worker_directories, int count);

  void look();  // for those announced since
  bool complete() const { return static_cast<int>(ranks_.size()) == count_; }
  bool all_ended() const;  // of those found
  // Each readable at its rank's end; only of those still running. To miss no end, taken before
  // asking what has ended.
  std::vector<int> descriptors() const;
  const std::vector<Rank>& ranks() const { return ranks_; }

  void signal_once(int number);  // to each that had not been sent it
  void kill();

  // Waits until all that announced themselves have ended; after `patience`, kills them.
  void wait_or_kill(std::chrono::milliseconds patience);

 private:
  std::vector<std::filesystem::path> worker_directories_;
  int count_;
  std::vector<Rank> ranks_;
};

}  // namespace coxswain::contract
