#include "trainer/contract/worker/temporary_directory.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "trainer/contract/error.h"
#include "trainer/contract/worker/worker_env.h"

namespace coxswain::contract {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& where, const std::string& why) {
  throw Error(ExitCode::kVolume,
              fmt::format("no place for temporary files in {}: {}: set TMPDIR to a directory that "
                          "may be written",
                          where.string(), why));
}

}  // namespace

fs::path temporary_root() {
  fs::path root = lookup_environment("TMPDIR").value_or("");
  if (root.empty()) root = "/tmp";
  std::error_code failed;
  const fs::file_status status = fs::status(root, failed);
  if (!fs::is_directory(status)) fail(root, failed ? failed.message() : "is no directory");
  return root;
}

TemporaryDirectory::TemporaryDirectory(std::string_view prefix) {
  const fs::path root = temporary_root();
  std::string pattern = root / fmt::format("{}-XXXXXX", prefix);
  if (mkdtemp(pattern.data()) == nullptr) fail(root, std::strerror(errno));
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace coxswain::contract
