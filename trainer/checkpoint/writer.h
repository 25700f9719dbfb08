#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/contract/exit_code.h"

namespace coxswain::checkpoint {

struct WriterOptions {
  std::filesystem::path directory;  // made when missing
  int keep = 3;
  std::optional<int> keep_epochs = std::nullopt;  // beside them; 0: all; see Publisher
  int max_failures = 3;                           // in a row, then Error
  // A save that takes longer is a volume that is gone: then Error (74).
  std::chrono::seconds stall_limit{300};
  // The uid of the job whose run begins with this start, without resuming: what other runs left in
  // the directory stays, and is not counted in `keep`.
  std::optional<std::string> new_run = std::nullopt;
};

// Value. What became of a save.
struct SaveResult {
  std::int64_t step = 0;
  std::filesystem::path path;  // step-00001200.g7
  std::int64_t bytes = 0;
  double seconds = 0;
  std::string error;                // empty: saved, durable and read back
  ExitCode code = ExitCode::kDone;  // of the error
};

// Resource. Writes checkpoints of one generation, on a thread of its own at low priority
// (docs/design.md, "How checkpoints are published"): temporary folder in the same directory, write,
// fsync, rename, fsync the directory, read back, LATEST, prune. One at a time.
//
// The constructor claims the next generation with mkdir; Error (74) when the directory can't be
// written. From poll and save_now: Error (71) when a higher generation exists, as this attempt is
// no longer the one; after max_failures in a row the error of the last (74 for a full, unwritable
// or stalled volume).
class Writer {
 public:
  explicit Writer(WriterOptions options);
  Writer(WriterOptions options, std::shared_ptr<FileSystem> files);
  ~Writer();  // waits for a save under way, up to the stall limit
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  std::int64_t generation() const;

  // Starts a save unless one is under way (then false, and skipped() counts it). `contents` is
  // called on the writer's thread and must own what it reads.
  bool start_save(std::function<Contents()> contents);

  // Until no save is under way. Throws Error (74) when one does not end.
  void wait();

  // The result of a save that ended since the last call.
  std::optional<SaveResult> poll();

  // Waits for a save under way, then saves this one before returning. Results of earlier saves that
  // were not polled stay to be polled.
  SaveResult save_now(std::function<Contents()> contents);

  std::int64_t skipped() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // the thread is the second owner: it may outlive a stalled volume
};

}  // namespace coxswain::checkpoint
