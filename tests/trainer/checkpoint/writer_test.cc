#include "trainer/checkpoint/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <iostream>
#include <random>
#include <thread>

#include "tests/support/test_flags.h"
#include "tests/trainer/checkpoint/faulty_file_system.h"
#include "tests/trainer/checkpoint/sample_checkpoint.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/contract/error.h"

namespace coxswain::checkpoint {
namespace {

using test::TemporaryDirectory;
using ::testing::HasSubstr;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

std::function<Contents()> saving(std::int64_t step) {
  return [step] { return sample_contents(step); };
}

// The next result; the save that is waited for is bounded by the test's own file system.
SaveResult wait_for(Writer& writer) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (std::chrono::steady_clock::now() < deadline) {
    if (auto result = writer.poll()) return *result;
    std::this_thread::sleep_for(1ms);
  }
  throw std::runtime_error("no result in 20 s");
}

template <typename Action>
std::pair<ExitCode, std::string> error_of_writing(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ExitCode::kDone, "no error"};
}

// Lets a save go on only when told to.
struct Gate {
  std::promise<void> reached;
  std::promise<void> open;
  std::shared_future<void> opened = open.get_future().share();

  std::function<Contents()> saving(std::int64_t step) {
    return [this, step] {
      reached.set_value();
      opened.wait();
      return sample_contents(step);
    };
  }
};

TEST(Writer, saves_on_its_own_thread_and_reports_the_result) {
  TemporaryDirectory directory;
  Writer writer({.directory = directory.path()});
  EXPECT_EQ(writer.generation(), 1);
  EXPECT_FALSE(writer.poll());
  std::thread::id thread;
  EXPECT_TRUE(writer.start_save([&] {
    thread = std::this_thread::get_id();
    return sample_contents(12);
  }));
  const SaveResult result = wait_for(writer);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.step, 12);
  EXPECT_EQ(result.path, directory.path() / "step-00000012.g1");
  EXPECT_GT(result.bytes, 1000);
  EXPECT_GT(result.seconds, 0);
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_FALSE(writer.poll());
  EXPECT_TRUE(load(result.path) == sample_contents(12));
}

TEST(Writer, a_save_that_is_due_while_one_is_under_way_is_skipped_and_counted) {
  TemporaryDirectory directory;
  Writer writer({.directory = directory.path()});
  Gate gate;
  EXPECT_TRUE(writer.start_save(gate.saving(1)));
  gate.reached.get_future().wait();
  EXPECT_FALSE(writer.start_save(saving(2)));
  EXPECT_FALSE(writer.start_save(saving(3)));
  EXPECT_EQ(writer.skipped(), 2);
  gate.open.set_value();
  EXPECT_EQ(wait_for(writer).step, 1);
  EXPECT_TRUE(writer.start_save(saving(4)));
  EXPECT_EQ(wait_for(writer).step, 4);
  EXPECT_EQ(writer.skipped(), 2);
}

// start_save and poll return while the disk hangs in a sync: nothing here waits for it.
TEST(Writer, a_slow_sync_does_not_hold_the_caller) {
  TemporaryDirectory directory;
  auto files = std::make_shared<FaultyFileSystem>();
  std::promise<void> syncing;
  std::promise<void> resume;
  std::once_flag once;
  Writer writer({.directory = directory.path()}, files);
  files->before = [&](const std::string& call) {
    if (call != "sync") return;
    std::call_once(once, [&] {
      syncing.set_value();
      resume.get_future().wait();
    });
  };
  EXPECT_TRUE(writer.start_save(saving(1)));
  syncing.get_future().wait();
  EXPECT_FALSE(writer.start_save(saving(2)));
  EXPECT_FALSE(writer.poll());
  resume.set_value();
  EXPECT_EQ(wait_for(writer).error, "");
}

TEST(Writer, the_content_is_the_steps_while_training_goes_on) {
  TemporaryDirectory directory;
  Writer writer({.directory = directory.path()});
  Contents training = sample_contents(7);
  Gate gate;
  EXPECT_TRUE(writer.start_save([&gate, snapshot = training] {
    gate.reached.set_value();
    gate.opened.wait();
    return snapshot;
  }));
  for (float& weight : training.model[0].values) weight = 99;
  gate.open.set_value();
  EXPECT_TRUE(load(wait_for(writer).path) == sample_contents(7));
}

TEST(Writer, save_now_waits_for_the_one_under_way_and_saves_after_it) {
  TemporaryDirectory directory;
  Writer writer({.directory = directory.path()});
  EXPECT_TRUE(writer.start_save(saving(1)));
  const SaveResult last = writer.save_now(saving(2));
  EXPECT_EQ(last.step, 2);
  EXPECT_EQ(last.error, "");
  EXPECT_EQ(load_latest(directory.path())->contents.state.step, 2);
  EXPECT_EQ(writer.poll()->step, 1);
  EXPECT_FALSE(writer.poll());
  EXPECT_EQ(writer.skipped(), 0);
}

TEST(Writer, its_end_waits_for_a_save_under_way) {
  TemporaryDirectory directory;
  {
    Writer writer({.directory = directory.path()});
    writer.start_save(saving(3));
  }
  EXPECT_EQ(load_latest(directory.path())->contents.state.step, 3);
}

TEST(Writer, failures_are_results_until_there_are_too_many_in_a_row) {
  TemporaryDirectory directory;
  auto files = std::make_shared<FaultyFileSystem>();
  Writer writer({.directory = directory.path(), .max_failures = 3}, files);
  files->reason = "No space left on device";
  const auto set_broken = [&](bool broken) { files->fail_call = broken ? "write" : ""; };
  set_broken(true);
  EXPECT_THAT(writer.save_now(saving(1)).error, HasSubstr("No space left on device"));
  EXPECT_THAT(writer.save_now(saving(2)).error, HasSubstr("No space left on device"));
  set_broken(false);
  EXPECT_EQ(writer.save_now(saving(3)).error, "");
  set_broken(true);
  EXPECT_NE(writer.save_now(saving(4)).error, "");
  writer.start_save(saving(5));
  EXPECT_NE(wait_for(writer).error, "");
  writer.start_save(saving(6));
  const auto [code, message] = error_of_writing([&] { wait_for(writer); });
  EXPECT_EQ(code, ExitCode::kVolume);
  EXPECT_THAT(message, HasSubstr("(3 saves failed in a row)"));
  EXPECT_THAT(message, HasSubstr(directory.path().string()));
  EXPECT_EQ(load_latest(directory.path())->contents.state.step, 3);
}

TEST(Writer, a_directory_that_cannot_be_written_is_an_error_at_once) {
  const auto [code, message] = error_of_writing([] { Writer({.directory = "/proc/checkpoints"}); });
  EXPECT_EQ(code, ExitCode::kVolume);
  EXPECT_THAT(message, HasSubstr("/proc/checkpoints: "));
}

TEST(Writer, an_exception_of_the_snapshot_is_a_failed_save) {
  TemporaryDirectory directory;
  Writer writer({.directory = directory.path()});
  const auto result = writer.save_now([]() -> Contents { throw std::bad_alloc(); });
  EXPECT_THAT(result.error, HasSubstr("save failed"));
  EXPECT_EQ(writer.save_now(saving(2)).error, "");
}

TEST(Writer, an_older_generation_leaves_at_its_next_save) {
  TemporaryDirectory directory;
  Writer older({.directory = directory.path()});
  EXPECT_EQ(older.save_now(saving(1)).error, "");
  Writer newer({.directory = directory.path()});
  EXPECT_EQ(newer.generation(), 2);
  EXPECT_EQ(error_of_writing([&] { older.save_now(saving(2)); }).first, ExitCode::kPeerLost);
  older.start_save(saving(3));
  EXPECT_EQ(error_of_writing([&] { wait_for(older); }).first, ExitCode::kPeerLost);
  EXPECT_EQ(newer.save_now(saving(2)).error, "");
  EXPECT_EQ(load_latest(directory.path())->generation, 2);
}

TEST(Writer, a_stalled_volume_is_an_error_at_the_limit_and_does_not_hold_the_end) {
  TemporaryDirectory directory;
  auto files = std::make_shared<FaultyFileSystem>();
  auto resume = std::make_shared<std::promise<void>>();
  {
    Writer writer({.directory = directory.path(), .stall_limit = 0s}, files);
    files->before = [resume, opened = resume->get_future().share()](const std::string& call) {
      if (call == "sync") opened.wait();
    };
    const auto [code, message] = error_of_writing([&] { writer.save_now(saving(1)); });
    EXPECT_EQ(code, ExitCode::kVolume);
    EXPECT_THAT(message, HasSubstr("did not end in 0 s"));
    EXPECT_EQ(error_of_writing([&] { writer.poll(); }).first, ExitCode::kVolume);
    EXPECT_EQ(error_of_writing([&] { writer.save_now(saving(2)); }).first, ExitCode::kVolume);
  }
  const std::weak_ptr<FaultyFileSystem> alive = files;
  files.reset();
  resume->set_value();
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!alive.expired() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(alive.expired()) << "the thread did not end";
}

TEST(Writer, gives_way_to_threads_that_compute) {
  TemporaryDirectory directory;
  Writer writer({.directory = directory.path()});
  int priority = 0;
  writer.save_now([&] {
    priority = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
    return sample_contents(1);
  });
  EXPECT_GE(priority, std::max(10, ::getpriority(PRIO_PROCESS, 0)));
}

// A real process that saves in a loop and is killed at random times; each start resumes above what
// the one before left.
TEST(Writer, a_killed_process_leaves_a_directory_that_loads) {
  const std::uint64_t seed = test::flags().seed;
  SCOPED_TRACE("--seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  TemporaryDirectory directory;
  std::int64_t newest = 0;
  int saved[2];  // a byte for each checkpoint
  ASSERT_EQ(::pipe(saved), 0);
  for (int run = 0; run < 20; ++run) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        Writer writer({.directory = directory.path(), .keep = 2});
        for (std::int64_t step = newest + 1; step < newest + 10000; ++step) {
          writer.save_now(saving(step));
          (void)!::write(saved[1], "", 1);
        }
      } catch (...) {
      }
      ::_exit(1);
    }
    if (run == 0) {
      char byte = 0;
      ASSERT_EQ(::read(saved[0], &byte, 1), 1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the process ended by itself";
    const auto loaded = load_latest(directory.path());
    ASSERT_TRUE(loaded);
    EXPECT_TRUE(loaded->refused.empty()) << loaded->refused.front();
    ASSERT_GE(loaded->contents.state.step, newest);
    ASSERT_TRUE(loaded->contents == sample_contents(loaded->contents.state.step));
    newest = loaded->contents.state.step;
  }
  ::close(saved[0]);
  ::close(saved[1]);
}

// Needs the right to mount; elsewhere the simulated full disk stands for it.
TEST(Writer, a_disk_that_is_really_full_keeps_the_checkpoint_before) {
  TemporaryDirectory directory;
  if (::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "cannot mount a tmpfs: " << std::strerror(errno);
  }
  const auto large = [](std::int64_t step) {
    return [step] {
      Contents contents = sample_contents(step);
      contents.model[0] = sample_tensor("fc1.weight", {1 << 17}, 1);  // 512 KiB
      return contents;
    };
  };
  {
    Writer writer({.directory = directory.path()});
    EXPECT_EQ(writer.save_now(large(1)).error, "");
    EXPECT_THAT(writer.save_now(large(2)).error, HasSubstr("No space left on device"));
    EXPECT_EQ(writer.save_now(saving(3)).error, "");
    EXPECT_EQ(load_latest(directory.path())->contents.state.step, 3);
    EXPECT_EQ(names_in(directory.path()),
              (std::vector<std::string>{".generation-1", "LATEST", "step-00000001.g1",
                                        "step-00000003.g1"}));
    ASSERT_EQ(::mount("", directory.path().c_str(), "", MS_REMOUNT | MS_RDONLY, ""), 0);
    EXPECT_THAT(writer.save_now(saving(4)).error, HasSubstr("Read-only file system"));
    EXPECT_EQ(load_latest(directory.path())->contents.state.step, 3);
  }
  EXPECT_EQ(error_of_writing([&] { Writer({.directory = directory.path()}); }).first,
            ExitCode::kVolume);
  EXPECT_EQ(::umount(directory.path().c_str()), 0);
}

}  // namespace
}  // namespace coxswain::checkpoint
