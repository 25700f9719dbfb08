#include "trainer/launch/shared_memory_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <string>

namespace coxswain::launch {

namespace {

namespace fs = std::filesystem;

// "coxswain-<user>-<process>"
std::string prefix() { return fmt::format("coxswain-{}-", geteuid()); }

bool is_of_a_dead_process(const std::string& name) {
  if (!name.starts_with(prefix())) return false;
  pid_t pid = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix().size(), end, pid);
  return error == std::errc{} && stop == end && pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

void remove_abandoned(const fs::path& parent) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    std::error_code ignored;  // another one may be at it
    if (is_of_a_dead_process(entry.path().filename())) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

SharedMemoryDirectory::SharedMemoryDirectory(const std::vector<fs::path>& parents,
                                             std::uint64_t bytes) {
  for (const fs::path& parent : parents) {
    remove_abandoned(parent);
    std::error_code failed;
    const fs::space_info space = fs::space(parent, failed);
    if (failed || space.available < bytes) continue;
    const fs::path made = parent / fmt::format("{}{}", prefix(), getpid());
    if (mkdir(made.c_str(), 0700) != 0) continue;
    path_ = made;
    return;
  }
}

SharedMemoryDirectory::~SharedMemoryDirectory() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace coxswain::launch
