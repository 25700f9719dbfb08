#include "trainer/checkpoint/publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/test_flags.h"
#include "tests/trainer/checkpoint/faulty_file_system.h"
#include "tests/trainer/checkpoint/sample_checkpoint.h"
#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/contract/error.h"

namespace coxswain::checkpoint {
namespace {

using test::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::int64_t newest_step(const fs::path& directory) {
  const auto loaded = load_latest(directory);
  if (!loaded) return -1;
  const std::int64_t step = loaded->contents.state.step;
  EXPECT_TRUE(loaded->contents == sample_contents(step)) << "torn: " << loaded->path;
  return step;
}

void expect_no_temporaries(const fs::path& directory, const std::string& after) {
  for (const std::string& name : names_in(directory)) {
    EXPECT_FALSE(name.starts_with(".tmp")) << name << " is left after " << after;
  }
}

template <typename Action>
std::pair<ExitCode, std::string> error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ExitCode::kDone, "no error"};
}

TEST(Publisher, publishes_what_the_reader_loads) {
  TemporaryDirectory directory;
  FaultyFileSystem files;
  Publisher publisher(files, directory.path() / "checkpoints", 3);
  const fs::path checkpoints = directory.path() / "checkpoints";

  const Published published = publisher.publish(sample_contents(1200));

  EXPECT_EQ(published.path, checkpoints / "step-00001200.g1");
  EXPECT_THAT(names_in(checkpoints), ElementsAre(".generation-1", "LATEST", "step-00001200.g1"));
  EXPECT_THAT(names_in(published.path), ElementsAre("MANIFEST.json", "model.safetensors",
                                                    "optimizer.safetensors", "state.json"));
  EXPECT_EQ(read_bytes(checkpoints / "LATEST"), "step-00001200.g1\n");
  std::int64_t bytes = 0;
  for (const auto& file : fs::directory_iterator(published.path)) {
    bytes += static_cast<std::int64_t>(file.file_size());
  }
  EXPECT_EQ(published.bytes, bytes);
  const auto loaded = load_latest(checkpoints);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->path, published.path);
  EXPECT_EQ(loaded->generation, 1);
  EXPECT_TRUE(loaded->contents == sample_contents(1200));
  EXPECT_TRUE(loaded->refused.empty());
}

TEST(Publisher, a_step_saved_again_is_a_new_revision_and_replaces_nothing) {
  TemporaryDirectory directory;
  PosixFileSystem files;
  Publisher publisher(files, directory.path(), 3);
  publisher.publish(sample_contents(5));
  Contents finished = sample_contents(5);
  finished.state.finished = true;
  publisher.publish(finished);
  EXPECT_THAT(names_in(directory.path()),
              ElementsAre(".generation-1", "LATEST", "step-00000005.g1", "step-00000005.g1.r2"));
  EXPECT_TRUE(load_latest(directory.path())->contents.state.finished);
}

TEST(Publisher, keeps_the_newest_and_those_of_higher_generations) {
  TemporaryDirectory directory;
  PosixFileSystem files;
  Publisher first(files, directory.path(), 2);
  for (const int step : {10, 20, 30}) first.publish(sample_contents(step));
  EXPECT_THAT(names_in(directory.path()),
              ElementsAre(".generation-1", "LATEST", "step-00000020.g1", "step-00000030.g1"));
  Publisher second(files, directory.path(), 2);
  second.publish(sample_contents(25));  // resumed from an earlier step: newer all the same
  EXPECT_THAT(names_in(directory.path()),
              ElementsAre(".generation-2", "LATEST", "step-00000025.g2", "step-00000030.g1"));
  EXPECT_EQ(newest_step(directory.path()), 25);
  Publisher third(files, directory.path(), 1);
  third.publish(sample_contents(26));
  EXPECT_THAT(names_in(directory.path()),
              ElementsAre(".generation-3", "LATEST", "step-00000026.g3"));
}

TEST(Publisher, leaves_names_that_are_not_its_own_alone) {
  TemporaryDirectory directory;
  for (const char* name : {"step-9.g1", "step-00000009.gx", "notes.txt", "step-00000001.g1.bak"}) {
    fs::create_directory(directory.path() / name);
  }
  PosixFileSystem files;
  Publisher publisher(files, directory.path(), 1);
  publisher.publish(sample_contents(10));
  publisher.publish(sample_contents(20));
  EXPECT_THAT(names_in(directory.path()),
              ElementsAre(".generation-1", "LATEST", "notes.txt", "step-00000001.g1.bak",
                          "step-00000009.gx", "step-00000020.g1", "step-9.g1"));
}

// A kill, and a loss of power at the same place, at every call of a save, with none, one and `keep`
// checkpoints before it.
TEST(Publisher, survives_a_kill_at_every_call) {
  const std::uint64_t seed = test::flags().seed;
  SCOPED_TRACE("--seed " + std::to_string(seed));
  int places = 0;
  for (const int history : {0, 1, 3}) {
    for (const int power_losses : {0, 1, 2, 3}) {
      for (int kill_at = 0;; ++kill_at) {
        TemporaryDirectory directory;
        FaultyFileSystem files;
        files.random.seed(seed + static_cast<std::uint64_t>(1000 * kill_at + power_losses));
        Publisher publisher(files, directory.path(), 3);
        for (int step = 1; step <= history; ++step) publisher.publish(sample_contents(step));
        files.power_loss = power_losses > 0;
        files.kill_at = files.calls + kill_at;
        bool killed = false;
        try {
          publisher.publish(sample_contents(history + 1));
        } catch (const Killed&) {
          killed = true;
        }
        const std::string place = "history " + std::to_string(history) + ", call " +
                                  std::to_string(kill_at) + ", power loss " +
                                  std::to_string(power_losses);
        const std::int64_t before = history == 0 ? -1 : history;
        const std::int64_t found = newest_step(directory.path());
        ASSERT_TRUE(found == history + 1 || (killed && found == before)) << place << ": " << found;

        FaultyFileSystem healthy;
        Publisher next(healthy, directory.path(), 3);
        next.publish(sample_contents(100));
        ASSERT_EQ(newest_step(directory.path()), 100) << place;
        expect_no_temporaries(directory.path(), place);
        if (!killed) break;
        ++places;
      }
    }
  }
  EXPECT_GT(places, 300);
}

TEST(Publisher, survives_a_kill_at_every_call_of_its_start) {
  for (int kill_at = 0;; ++kill_at) {
    TemporaryDirectory directory;
    FaultyFileSystem healthy;
    Publisher(healthy, directory.path(), 3).publish(sample_contents(1));
    fs::create_directory(directory.path() / ".tmp-1-step-00000002.g1");
    FaultyFileSystem files;
    files.kill_at = kill_at;
    bool killed = false;
    try {
      Publisher publisher(files, directory.path(), 3);
    } catch (const Killed&) {
      killed = true;
    }
    EXPECT_EQ(newest_step(directory.path()), 1);
    Publisher next(healthy, directory.path(), 3);
    EXPECT_GE(next.generation(), 2);
    next.publish(sample_contents(2));
    EXPECT_EQ(newest_step(directory.path()), 2);
    expect_no_temporaries(directory.path(), "a kill at start, call " + std::to_string(kill_at));
    if (!killed) break;
  }
}

// Every call fails once; the error is reported, the checkpoint before is whole, and the next save
// succeeds as if nothing had been.
TEST(Publisher, an_error_at_any_call_costs_that_save_alone) {
  int failures = 0;
  int calls_of_a_save = 0;
  for (int fail_at = 0; failures == 0 || fail_at < calls_of_a_save; ++fail_at) {
    TemporaryDirectory directory;
    FaultyFileSystem files;
    Publisher publisher(files, directory.path(), 2);
    const int before = files.calls;
    for (const int step : {1, 2, 3}) {
      const int start = files.calls;
      publisher.publish(sample_contents(step));
      calls_of_a_save = files.calls - start;
    }
    ASSERT_GT(files.calls, before);
    files.fail_at = files.calls + fail_at;
    const auto [code, message] = error_of([&] { publisher.publish(sample_contents(4)); });
    if (code != ExitCode::kDone) {
      ++failures;
      EXPECT_EQ(code, ExitCode::kVolume) << fail_at;
      EXPECT_THAT(message, HasSubstr(directory.path().string())) << fail_at;
      EXPECT_THAT(message, HasSubstr("Input/output error")) << fail_at;
    }
    const std::int64_t found = newest_step(directory.path());
    ASSERT_TRUE(found == 4 || (found == 3 && code != ExitCode::kDone)) << fail_at;
    publisher.publish(sample_contents(5));
    ASSERT_EQ(newest_step(directory.path()), 5) << fail_at;
    expect_no_temporaries(directory.path(), "a failed call " + std::to_string(fail_at));
  }
  EXPECT_GT(failures, 40);
}

TEST(Publisher, a_failed_sync_throws_the_file_away_and_is_not_repeated) {
  TemporaryDirectory directory;
  FaultyFileSystem files;
  Publisher publisher(files, directory.path(), 3);
  publisher.publish(sample_contents(1));
  int syncs = 0;
  files.before = [&](const std::string& call) { syncs += call == "sync" ? 1 : 0; };
  files.fail_call = "sync";
  EXPECT_EQ(error_of([&] { publisher.publish(sample_contents(2)); }).first, ExitCode::kVolume);
  EXPECT_EQ(syncs, 1);
  expect_no_temporaries(directory.path(), "a failed sync");
  EXPECT_EQ(newest_step(directory.path()), 1);
}

TEST(Publisher, what_reads_back_differently_is_not_published) {
  TemporaryDirectory directory;
  FaultyFileSystem files;
  Publisher publisher(files, directory.path(), 3);
  publisher.publish(sample_contents(1));
  const fs::path model = directory.path() / "step-00000002.g1" / "model.safetensors";
  bool damaged = false;
  files.before = [&](const std::string& call) {
    if (call != "open" || damaged || !fs::exists(model)) return;
    damaged = true;
    std::string bytes = read_bytes(model);
    bytes.back() ^= 1;
    write_bytes(model, bytes);
  };
  const auto [code, message] = error_of([&] { publisher.publish(sample_contents(2)); });
  EXPECT_EQ(code, ExitCode::kVolume);
  EXPECT_THAT(message, HasSubstr("model.safetensors: chunk 0"));
  EXPECT_THAT(message, HasSubstr("(found when it was read back)"));
  EXPECT_THAT(names_in(directory.path()),
              ElementsAre(".generation-1", "LATEST", "step-00000001.g1"));
}

TEST(Publisher, a_full_disk_keeps_the_checkpoints_and_frees_what_was_written) {
  std::uint64_t size = 1;
  for (std::uint64_t space = 0; space < size; space += 29) {
    TemporaryDirectory directory;
    FaultyFileSystem files;
    Publisher publisher(files, directory.path(), 3);
    size = static_cast<std::uint64_t>(publisher.publish(sample_contents(1)).bytes);
    files.space = space;
    const auto [code, message] = error_of([&] { publisher.publish(sample_contents(2)); });
    EXPECT_EQ(code, ExitCode::kVolume);
    EXPECT_THAT(message, HasSubstr("No space left on device"));
    EXPECT_EQ(newest_step(directory.path()), 1);
    expect_no_temporaries(directory.path(), "a full disk");
    files.space = 1U << 20;
    publisher.publish(sample_contents(2));
    EXPECT_EQ(newest_step(directory.path()), 2);
  }
}

// Room for the checkpoint, but not for LATEST: old ones are pruned all the same, else no later save
// would find room.
TEST(Publisher, a_disk_that_fills_at_the_hint_is_pruned) {
  TemporaryDirectory directory;
  FaultyFileSystem files;
  Publisher publisher(files, directory.path(), 1);
  files.space = static_cast<std::uint64_t>(publisher.publish(sample_contents(1)).bytes) + 3;
  EXPECT_EQ(error_of([&] { publisher.publish(sample_contents(2)); }).first, ExitCode::kVolume);
  EXPECT_THAT(names_in(directory.path()),
              ElementsAre(".generation-1", "LATEST", "step-00000002.g1"));
}

TEST(Publisher, short_writes_and_reads_change_nothing) {
  TemporaryDirectory directory;
  FaultyFileSystem files;
  files.longest_write = 7;
  Publisher publisher(files, directory.path(), 3);
  publisher.publish(sample_contents(1));
  EXPECT_TRUE(load_latest(files, directory.path())->contents == sample_contents(1));
  EXPECT_EQ(newest_step(directory.path()), 1);
}

TEST(Publisher, a_read_only_directory_is_an_error_at_once) {
  TemporaryDirectory directory;
  FaultyFileSystem files;
  files.fail_call = "make";
  files.reason = "Read-only file system";
  const auto [code, message] = error_of([&] { Publisher(files, directory.path() / "c", 3); });
  EXPECT_EQ(code, ExitCode::kVolume);
  EXPECT_THAT(message, HasSubstr((directory.path() / "c").string()));
  EXPECT_THAT(message, HasSubstr("Read-only file system"));
}

TEST(Publisher, a_file_in_the_place_of_the_directory_is_an_error_at_once) {
  TemporaryDirectory directory;
  write_bytes(directory.path() / "file", "x");
  PosixFileSystem files;
  const auto [code, message] = error_of([&] { Publisher(files, directory.path() / "file", 3); });
  EXPECT_EQ(code, ExitCode::kVolume);
  EXPECT_THAT(message, HasSubstr((directory.path() / "file").string()));
}

TEST(Publisher, a_directory_that_went_away_is_an_error) {
  TemporaryDirectory directory;
  PosixFileSystem files;
  Publisher publisher(files, directory.path() / "c", 3);
  fs::remove_all(directory.path() / "c");
  const auto [code, message] = error_of([&] { publisher.publish(sample_contents(1)); });
  EXPECT_EQ(code, ExitCode::kVolume);
  EXPECT_THAT(message, HasSubstr("is gone"));
}

TEST(Publisher, values_that_are_not_finite_never_take_the_place_of_good_ones) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const bool in_optimizer : {false, true}) {
      TemporaryDirectory directory;
      PosixFileSystem files;
      Publisher publisher(files, directory.path(), 1);
      publisher.publish(sample_contents(1));
      Contents contents = sample_contents(2);
      (in_optimizer ? contents.optimizer : contents.model)[1].values[3] = bad;
      const auto [code, message] = error_of([&] { publisher.publish(contents); });
      EXPECT_EQ(code, ExitCode::kNotFinite);
      EXPECT_THAT(message, HasSubstr("fc1.bias"));
      EXPECT_EQ(newest_step(directory.path()), 1);
    }
  }
}

TEST(Publisher, a_tensor_whose_shape_is_not_its_size_is_refused) {
  TemporaryDirectory directory;
  PosixFileSystem files;
  Publisher publisher(files, directory.path(), 1);
  Contents contents = sample_contents(2);
  contents.model[0].values.pop_back();
  EXPECT_EQ(error_of([&] { publisher.publish(contents); }).first, ExitCode::kInternal);
}

TEST(Generations, each_start_claims_the_one_above_all_seen) {
  TemporaryDirectory directory;
  PosixFileSystem files;
  EXPECT_EQ(Publisher(files, directory.path(), 3).generation(), 1);
  EXPECT_EQ(Publisher(files, directory.path(), 3).generation(), 2);
  fs::create_directory(directory.path() / "step-00000001.g7");
  EXPECT_EQ(Publisher(files, directory.path(), 3).generation(), 8);
  fs::create_directory(directory.path() / ".generation-20");
  EXPECT_EQ(Publisher(files, directory.path(), 3).generation(), 21);
}

TEST(Generations, a_claim_that_another_took_meanwhile_goes_one_higher) {
  TemporaryDirectory directory;
  FaultyFileSystem files;
  files.before = [&](const std::string& call) {
    if (call == "make") fs::create_directory(directory.path() / ".generation-1");
  };
  EXPECT_EQ(Publisher(files, directory.path(), 3).generation(), 2);
}

// `resume: false` in a used directory: the other run's checkpoints stay, this run's are pruned over
// its restarts, and a restart finds this run's alone.
TEST(Generations, a_new_run_keeps_what_others_left) {
  TemporaryDirectory directory;
  FaultyFileSystem files;
  Publisher other(files, directory.path(), 2);
  for (const int step : {10, 20}) other.publish(sample_contents(step));
  EXPECT_EQ(job_of_last_run(directory.path()), std::nullopt);
  Publisher first(files, directory.path(), 2, /*new_run=*/"4f-0a");
  EXPECT_EQ(job_of_last_run(directory.path()), "4f-0a");
  EXPECT_FALSE(load_latest(directory.path(), Runs::kLast));
  EXPECT_EQ(newest_step(directory.path()), 20);
  for (const int step : {1, 2}) first.publish(sample_contents(step));
  Publisher restarted(files, directory.path(), 2);
  EXPECT_EQ(load_latest(directory.path(), Runs::kLast)->contents.state.step, 2);
  for (const int step : {3, 4}) restarted.publish(sample_contents(step));
  EXPECT_THAT(names_in(directory.path()),
              ElementsAre(".generation-3", ".run-2-4f-0a", "LATEST", "step-00000003.g3",
                          "step-00000004.g3", "step-00000010.g1", "step-00000020.g1"));
  EXPECT_EQ(newest_step(directory.path()), 4);
}

// What is in a directory but for claims and LATEST.
std::vector<std::string> kept_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const std::string& name : names_in(directory))
    if (!name.starts_with(".generation") && name != "LATEST") names.push_back(name);
  return names;
}

Contents contents_of(int step, const Keep& keep) {
  Contents contents = sample_contents(step);
  contents.keep = keep;
  return contents;
}

TEST(Keeping, epochs_and_the_best_stand_beside_the_newest_over_restarts) {
  TemporaryDirectory directory;
  FaultyFileSystem files;
  Publisher first(files, directory.path(), 1, std::nullopt, /*keep_epochs=*/2);
  first.publish(contents_of(10, {.epoch = 1}));
  first.publish(contents_of(11, {.best = true}));
  first.publish(contents_of(20, {.epoch = 2}));
  first.publish(contents_of(25, {}));
  EXPECT_THAT(kept_in(directory.path()),
              ElementsAre(".best-step-00000011.g1", ".epoch-1-step-00000010.g1",
                          ".epoch-2-step-00000020.g1", "BEST", "step-00000010.g1",
                          "step-00000011.g1", "step-00000020.g1", "step-00000025.g1"));
  // Without the key no more are marked, and what was stays.
  Publisher other(files, directory.path(), 1);
  other.publish(contents_of(26, {.epoch = 3}));
  Publisher restarted(files, directory.path(), 1, std::nullopt, 2);
  restarted.publish(contents_of(20, {.epoch = 2}));  // from an older one, it came there again
  restarted.publish(contents_of(30, {.epoch = 3, .best = true}));
  restarted.publish(contents_of(31, {}));
  restarted.publish(contents_of(32, {}));
  EXPECT_THAT(kept_in(directory.path()),
              ElementsAre(".best-step-00000030.g3", ".epoch-2-step-00000020.g3",
                          ".epoch-3-step-00000030.g3", "BEST", "step-00000020.g3",
                          "step-00000030.g3", "step-00000032.g3"));
  EXPECT_EQ(read_bytes(directory.path() / "BEST"), "step-00000030.g3\n");
}

TEST(Keeping, all_epochs_leaves_none_out) {
  TemporaryDirectory directory;
  FaultyFileSystem files;
  Publisher publisher(files, directory.path(), 1, std::nullopt, /*keep_epochs=*/0);
  for (const int epoch : {1, 2, 3, 4}) publisher.publish(contents_of(10 * epoch, {.epoch = epoch}));
  for (const int step : {41, 42}) publisher.publish(contents_of(step, {}));
  int checkpoints = 0;
  for (const std::string& name : names_in(directory.path()))
    checkpoints += name.starts_with("step-") ? 1 : 0;
  EXPECT_EQ(checkpoints, 5);
}

// At every call of the save of a new best one the old or the new one is there and marked, whatever
// is saved after it.
TEST(Keeping, a_best_one_survives_a_kill_at_every_call) {
  int places = 0;
  for (int kill_at = 0;; ++kill_at) {
    TemporaryDirectory directory;
    FaultyFileSystem files;
    Publisher publisher(files, directory.path(), 1);
    publisher.publish(contents_of(1, {.best = true}));
    publisher.publish(contents_of(2, {}));
    files.kill_at = files.calls + kill_at;
    bool killed = false;
    try {
      publisher.publish(contents_of(3, {.best = true}));
    } catch (const Killed&) {
      killed = true;
    }
    FaultyFileSystem healthy;
    Publisher next(healthy, directory.path(), 1);
    for (const int step : {4, 5}) next.publish(contents_of(step, {}));
    const auto best = load_where(directory.path(), [](const State& s) { return s.step < 4; });
    ASSERT_TRUE(best) << "killed at call " << kill_at;
    if (!killed) break;
    ++places;
  }
  EXPECT_GT(places, 30);
}

TEST(Keeping, a_mark_is_its_exact_text) {
  const KeepMark epoch{12, {.generation = 7, .step = 1200, .revision = 2}};
  EXPECT_EQ(to_text(epoch), ".epoch-12-step-00001200.g7.r2");
  EXPECT_EQ(parse_keep_mark(to_text(epoch)), epoch);
  for (const char* text :
       {"step-00001200.g7", ".best-", ".epoch--step-00001200.g7", ".epoch-0-step-00001200.g7",
        ".epoch-01-step-00001200.g7", ".best-step-1200.g7", ".best-step-00001200.g7/.."})
    EXPECT_EQ(parse_keep_mark(text), std::nullopt) << text;
}

// A second writer starts at every call of the first one's save: the first leaves with 71 or had
// finished before, nothing of the second is harmed, and the second's checkpoint is the one loaded.
TEST(Generations, a_newer_writer_wins_at_every_interleaving) {
  int fenced = 0;
  for (int start_at = 0;; ++start_at) {
    TemporaryDirectory directory;
    FaultyFileSystem healthy;
    FaultyFileSystem files;
    Publisher older(files, directory.path(), 1);
    older.publish(sample_contents(1));
    std::unique_ptr<Publisher> newer;
    int call_index = 0;
    files.before = [&](const std::string&) {
      if (call_index++ != start_at) return;
      newer = std::make_unique<Publisher>(healthy, directory.path(), 2);
      EXPECT_GE(newest_step(directory.path()), 1);
      newer->publish(sample_contents(50));
    };
    const auto [code, message] = error_of([&] { older.publish(sample_contents(60)); });
    files.before = nullptr;
    if (!newer) break;
    EXPECT_TRUE(code == ExitCode::kPeerLost || code == ExitCode::kDone) << message;
    fenced += code == ExitCode::kPeerLost ? 1 : 0;
    const auto [next_code, next_message] = error_of([&] { older.publish(sample_contents(70)); });
    EXPECT_EQ(next_code, ExitCode::kPeerLost);
    EXPECT_THAT(next_message, HasSubstr("generation 2 writes to"));
    EXPECT_EQ(newest_step(directory.path()), 50) << "at call " << start_at;
    newer->publish(sample_contents(51));
    EXPECT_EQ(newest_step(directory.path()), 51) << "at call " << start_at;
  }
  EXPECT_GT(fenced, 20);
}

}  // namespace
}  // namespace coxswain::checkpoint
