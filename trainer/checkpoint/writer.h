#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "trainer/checkpoint/checkpoint.h"

namespace coxswain::checkpoint {

struct WriterOptions {
  std::filesystem::path directory;  // made when missing
  int keep = 3;
  int max_failures = 3;             // in a row, then Error (74)
};

// Value. What became of a save.
struct SaveResult {
  std::int64_t step = 0;
  std::filesystem::path path;       // step-00001200.g7
  std::int64_t bytes = 0;
  double seconds = 0;
  std::string error;                // empty: saved, durable and read back
};

// Resource. Writes checkpoints of one generation, on a thread of its own (DESIGN 4.4): temporary folder in the
// same directory, write, fsync, rename, fsync the directory, read back, LATEST, prune. One at a time.
//
// The constructor claims the next generation with mkdir. Throws Error: 74 when the directory cannot be written,
// 71 (from save and finish) when a higher generation exists: this attempt is no longer the one.
class Writer {
 public:
  explicit Writer(WriterOptions options);
  ~Writer();  // waits for a save under way
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  std::int64_t generation() const;

  // Starts a save unless one is under way (then false, and skipped() counts it). `contents` is called on the
  // writer's thread and must own what it reads.
  bool start_save(std::function<Contents()> contents);

  // The result of a save that ended since the last call. Throws Error (74) after max_failures in a row.
  std::optional<SaveResult> poll();

  // Waits for a save under way, then saves this one before returning.
  SaveResult save_now(std::function<Contents()> contents);

  std::int64_t skipped() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::checkpoint
