#include "trainer/launch/shared_memory_directory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "tests/support/test_flags.h"

namespace coxswain::launch {
namespace {

namespace fs = std::filesystem;

pid_t dead_process() {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, nullptr, 0);
  return pid;
}

TEST(SharedMemoryDirectory, goes_with_what_is_in_it) {
  const test::TemporaryDirectory parent;
  fs::path path;
  {
    const SharedMemoryDirectory directory({parent.path()}, 1);
    path = directory.path();
    std::ofstream(path / "segment") << "x";
    EXPECT_TRUE(fs::exists(path / "segment"));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(SharedMemoryDirectory, removes_those_of_dead_processes_alone) {
  const test::TemporaryDirectory parent;
  const auto named = [&](const std::string& tail) {
    const fs::path path = parent.path() / fmt::format("coxswain-{}-{}", geteuid(), tail);
    fs::create_directory(path);
    return path;
  };
  const fs::path dead = named(std::to_string(dead_process()));
  const fs::path alive = named(std::to_string(getppid()));
  const fs::path foreign = named("data");

  const SharedMemoryDirectory directory({parent.path()}, 1);

  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(alive));
  EXPECT_TRUE(fs::exists(foreign));
}

TEST(SharedMemoryDirectory, does_without_where_there_is_none) {
  EXPECT_EQ(SharedMemoryDirectory({"/no/such"}, 1).path(), "");
}

TEST(SharedMemoryDirectory, is_where_there_is_room) {
  const test::TemporaryDirectory parent;
  const fs::path full = "/proc";  // has no byte free
  EXPECT_EQ(SharedMemoryDirectory({full}, 1).path(), "");
  EXPECT_EQ(SharedMemoryDirectory({full, parent.path()}, 1).path().parent_path(), parent.path());
  EXPECT_EQ(SharedMemoryDirectory({parent.path()}, std::uint64_t{1} << 62).path(), "");
}

}  // namespace
}  // namespace coxswain::launch
