#pragma once

#include <filesystem>
#include <string_view>

namespace coxswain::contract {

// Where programs put what they keep for a while: $TMPDIR, else /tmp. Throws Error(74) where that is
// no directory.
std::filesystem::path temporary_root();

// Resource. A new directory there, "PREFIX-" and six characters; removed with all that lies in it.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(std::string_view prefix);  // throws Error(74)
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace coxswain::contract
