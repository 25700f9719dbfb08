#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>

#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/reader.h"

namespace coxswain::train {

// A new empty directory, removed with the object: in memory where there is such a place, as a
// save's syncs take far longer than the training of these tests.
class CheckpointDirectory {
 public:
  CheckpointDirectory() {
    for (const std::filesystem::path& parent :
         {std::filesystem::path("/dev/shm"), std::filesystem::temp_directory_path()}) {
      std::string name = (parent / "coxswain-test-XXXXXX").string();
      if (mkdtemp(name.data()) == nullptr) continue;
      path_ = name;
      return;
    }
    throw std::runtime_error("no place for temporary files");
  }
  ~CheckpointDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  CheckpointDirectory(const CheckpointDirectory&) = delete;
  CheckpointDirectory& operator=(const CheckpointDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline checkpoint::Contents newest(const std::filesystem::path& directory) {
  auto loaded = checkpoint::load_latest(directory);
  if (!loaded) throw std::runtime_error("no checkpoint in " + directory.string());
  return std::move(loaded->contents);
}

// Names of the published checkpoints.
inline std::set<std::string> saved_in(const std::filesystem::path& directory) {
  std::set<std::string> names;
  if (!std::filesystem::exists(directory)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (checkpoint::parse_checkpoint_name(name)) names.insert(name);
  }
  return names;
}

inline void expect_equal(const checkpoint::Contents& a, const checkpoint::Contents& b) {
  EXPECT_EQ(checkpoint::encode(a.state), checkpoint::encode(b.state));
  EXPECT_TRUE(a.model == b.model);
  EXPECT_TRUE(a.optimizer == b.optimizer);
}

}  // namespace coxswain::train
