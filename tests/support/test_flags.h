#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace coxswain::test {

// Flags of every test program: `--seed N` replays a random test, `--rewrite` writes golden files
// anew.
struct TestFlags {
  std::uint64_t seed = 0;
  bool seed_given = false;
  bool rewrite = false;
};

const TestFlags& flags();

// A new empty directory, removed when the object goes.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Compares with tests/golden/<name>; with --rewrite the file is written instead. Records a test
// failure on a difference.
void expect_golden(const std::string& name, const std::string& actual);

}  // namespace coxswain::test
