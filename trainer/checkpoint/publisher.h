#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/file_system.h"

namespace coxswain::checkpoint {

struct CheckpointName;
struct Manifest;

// Value. A checkpoint that is durable and was read back.
struct Published {
  std::filesystem::path path;
  std::int64_t bytes = 0;
};

// Resource. One generation's right to publish checkpoints in a directory, and the steps of doing
// so, on the caller's thread. The writer's thread is one user, tests that stop it at every step
// another.
//
// The constructor makes the directory, claims the generation above all seen with mkdir, and removes
// what older ones left half-written. Throws Error (74) when the directory can't be used. Temporary
// names carry the generation that made them; only its own save and a higher generation remove them.
// With `new_run` a run of the job of that uid ("": not known) begins: what is in the directory
// belongs to other runs, and is never pruned by this one.
//
// Beside the newest `keep` stand those that are kept for their epoch or as the best one: marks in
// the directory say so, so that any later attempt keeps them too.
class Publisher {
 public:
  Publisher(FileSystem& files, std::filesystem::path directory, int keep,
            const std::optional<std::string>& new_run = std::nullopt,
            std::optional<int> keep_epochs = std::nullopt);

  std::int64_t generation() const { return generation_; }

  // All of it or nothing: a failed publish removes what it wrote. Throws Error: 71 when a higher
  // generation is seen, 74 naming the path and the system's reason, 76 for values that are not
  // finite: they must not take the place of good ones.
  Published publish(const Contents& contents);

 private:
  Published publish_steps(const Contents& contents);
  void claim(const std::optional<std::string>& new_run);
  void check_fence();
  void remove_leftovers();
  std::int64_t write_folder(const std::filesystem::path& folder, const Contents& contents,
                            Manifest manifest);
  void add_marks(const CheckpointName& name, const Keep& keep);
  void write_hints(const std::string& name, const Keep& keep);
  void write_hint(std::string_view file, const std::string& name);
  void prune(const CheckpointName& published, const Keep& keep);
  void remove_checkpoint(const std::string& name);
  void discard(const std::filesystem::path& path);
  void discard_published(const std::string& name);
  std::filesystem::path temporary(const std::string& name) const;

  FileSystem& files_;
  std::filesystem::path directory_;
  int keep_;
  std::optional<int> keep_epochs_;  // 0: all; nothing: none are marked
  std::int64_t generation_ = 0;
};

}  // namespace coxswain::checkpoint
