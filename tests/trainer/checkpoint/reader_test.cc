#include "trainer/checkpoint/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "tests/support/test_flags.h"
#include "tests/trainer/checkpoint/faulty_file_system.h"
#include "tests/trainer/checkpoint/sample_checkpoint.h"
#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/publisher.h"
#include "trainer/contract/error.h"

namespace coxswain::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const std::vector<std::string> kFiles = {"MANIFEST.json", "model.safetensors",
                                         "optimizer.safetensors", "state.json"};

// A directory with checkpoints of steps 10 and 20.
class Reader : public ::testing::Test {
 protected:
  Reader() {
    Publisher publisher(files_, directory(), 3);
    publisher.publish(sample_contents(10));
    publisher.publish(sample_contents(20));
  }

  const fs::path& directory() const { return temporary_.path(); }
  fs::path previous() const { return directory() / "step-00000010.g1"; }
  fs::path newest() const { return directory() / "step-00000020.g1"; }

  // Why the newest is refused; a test failure if it isn't.
  std::string refusal() const {
    try {
      load(newest());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "a damaged checkpoint was loaded";
    return "";
  }

  void expect_previous(const std::string& reason) const {
    const auto loaded = load_latest(directory());
    ASSERT_TRUE(loaded);
    EXPECT_TRUE(loaded->contents == sample_contents(10));
    EXPECT_THAT(loaded->refused, ElementsAre(HasSubstr(reason)));
  }

  FaultyFileSystem files_;
  test::TemporaryDirectory temporary_;
};

TEST_F(Reader, a_directory_without_checkpoints_has_none) {
  test::TemporaryDirectory empty;
  EXPECT_FALSE(load_latest(empty.path()));
  EXPECT_FALSE(load_latest(empty.path() / "missing"));
  fs::create_directory(empty.path() / ".tmp-1-step-00000010.g1");
  fs::create_directory(empty.path() / ".generation-1");
  write_bytes(empty.path() / "LATEST", "step-00000010.g1\n");
  EXPECT_FALSE(load_latest(empty.path()));
}

TEST_F(Reader, does_not_depend_on_the_hint) {
  write_bytes(directory() / "LATEST", "step-00000099.g1\n");
  EXPECT_TRUE(load_latest(directory())->contents == sample_contents(20));
  fs::remove(directory() / "LATEST");
  EXPECT_TRUE(load_latest(directory())->contents == sample_contents(20));
}

TEST_F(Reader, a_file_cut_at_any_length_is_refused) {
  for (const std::string& name : kFiles) {
    const std::string whole = read_bytes(newest() / name);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      fs::resize_file(newest() / name, length);
      ASSERT_THAT(refusal(), HasSubstr(name)) << length;
      if (length % 199 == 0) expect_previous("step-00000020.g1: " + name);
      write_bytes(newest() / name, whole);
    }
    write_bytes(newest() / name, whole + "x");
    ASSERT_THAT(refusal(), HasSubstr(name));
    write_bytes(newest() / name, whole);
  }
  EXPECT_TRUE(load(newest()) == sample_contents(20));
}

TEST_F(Reader, every_flipped_bit_of_header_manifest_and_state_is_refused) {
  for (const std::string& name : kFiles) {
    const std::string whole = read_bytes(newest() / name);
    const std::size_t last = name.ends_with(".safetensors") ? whole.find("}}") + 8 : whole.size();
    for (std::size_t bit = 0; bit < 8 * std::min(last, whole.size()); ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      write_bytes(newest() / name, damaged);
      ASSERT_THAT(refusal(), HasSubstr(name)) << "bit " << bit;
      if (bit % 997 == 0) expect_previous(name);
    }
    write_bytes(newest() / name, whole);
  }
}

TEST_F(Reader, random_flips_anywhere_are_refused) {
  const std::uint64_t seed = test::flags().seed;
  SCOPED_TRACE("--seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const std::string& name = kFiles[random() % kFiles.size()];
    const std::string whole = read_bytes(newest() / name);
    std::string damaged = whole;
    const std::uint64_t flips = 1 + random() % 8;
    for (std::uint64_t flip = 0; flip < flips; ++flip) {
      auto& byte = damaged[random() % damaged.size()];
      byte = static_cast<char>(byte ^ (1 << (random() % 8)));
    }
    if (damaged == whole) continue;
    write_bytes(newest() / name, damaged);
    ASSERT_THAT(refusal(), HasSubstr(name));
    if (i % 50 == 0) expect_previous(name);
    write_bytes(newest() / name, whole);
  }
}

TEST_F(Reader, files_mixed_from_two_checkpoints_are_refused) {
  for (const std::string& name : kFiles) {
    const std::string whole = read_bytes(newest() / name);
    fs::copy_file(previous() / name, newest() / name, fs::copy_options::overwrite_existing);
    EXPECT_THAT(refusal(),
                HasSubstr(name == "MANIFEST.json" ? "belongs to step-00000010.g1" : name));
    write_bytes(newest() / name, whole);
  }
}

TEST_F(Reader, a_renamed_checkpoint_does_not_count_as_another) {
  fs::rename(newest(), directory() / "step-00000030.g1");
  const auto loaded = load_latest(directory());
  EXPECT_TRUE(loaded->contents == sample_contents(10));
  EXPECT_THAT(
      loaded->refused,
      ElementsAre(HasSubstr("step-00000030.g1: MANIFEST.json: belongs to step-00000020.g1")));
}

TEST_F(Reader, a_copy_under_a_name_of_ones_own_is_loaded) {
  fs::rename(newest(), directory() / "best");
  EXPECT_TRUE(load(directory() / "best") == sample_contents(20));
}

TEST_F(Reader, a_missing_file_is_refused_and_so_is_a_missing_folder) {
  for (const std::string& name : kFiles) {
    fs::rename(newest() / name, newest() / "away");
    EXPECT_THAT(refusal(), HasSubstr(name + " is missing"));
    expect_previous(name);
    fs::rename(newest() / "away", newest() / name);
  }
  fs::remove_all(newest());
  EXPECT_THAT(refusal(), HasSubstr("not a checkpoint: missing"));
}

TEST_F(Reader, links_fifos_and_directories_are_not_followed_or_waited_for) {
  const fs::path model = newest() / "model.safetensors";
  fs::rename(model, directory() / "elsewhere");
  fs::create_symlink(directory() / "elsewhere", model);
  EXPECT_THAT(refusal(), HasSubstr("model.safetensors is a link"));
  fs::remove(model);
  ASSERT_EQ(::mkfifo(model.c_str(), 0600), 0);
  EXPECT_THAT(refusal(), HasSubstr("model.safetensors is not a regular file"));
  fs::remove(model);
  fs::create_directory(model);
  EXPECT_THAT(refusal(), HasSubstr("model.safetensors is not a regular file"));
  expect_previous("not a regular file");
}

TEST_F(Reader, a_linked_checkpoint_is_refused) {
  test::TemporaryDirectory outside;
  fs::rename(newest(), directory() / "moved");
  fs::create_directory_symlink(directory() / "moved", newest());
  EXPECT_THAT(refusal(), HasSubstr("links are not followed"));
  expect_previous("links are not followed");
}

TEST_F(Reader, a_newer_format_is_refused_by_its_version) {
  std::string text = read_bytes(newest() / "MANIFEST.json");
  const std::string version = "\"version\": 1";
  write_bytes(newest() / "MANIFEST.json",
              text.replace(text.find(version), version.size(), "\"version\": 2, \"new\": []"));
  EXPECT_THAT(refusal(), HasSubstr("format version 2 is newer than this program reads (1)"));
  expect_previous("format version 2");
}

TEST_F(Reader, a_manifest_beyond_the_limit_is_not_read) {
  fs::resize_file(newest() / "MANIFEST.json", kMaxJsonBytes + 1);
  EXPECT_THAT(refusal(), HasSubstr("MANIFEST.json: 16777217 bytes long, the limit is 16777216"));
}

TEST_F(Reader, when_every_checkpoint_is_damaged_each_reason_is_named) {
  fs::resize_file(newest() / "model.safetensors", 9);
  fs::remove(previous() / "state.json");
  try {
    load_latest(directory());
    ADD_FAILURE() << "loaded a damaged checkpoint";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr("step-00000020.g1: model.safetensors: 9 bytes long"));
    EXPECT_THAT(error.what(), HasSubstr("step-00000010.g1/state.json is missing"));
    EXPECT_THAT(error.what(), HasSubstr("checkpoint.resume: false"));
  }
}

// Checksums hold, but the content is not what a writer of ours leaves.
TEST_F(Reader, a_consistent_checkpoint_with_foreign_content_is_refused) {
  struct Row {
    std::string file;
    std::string content;
    std::string message;
  };
  std::string not_finite = encode_safetensors_header({{.name = "x", .dims = {1}, .values = {1}}});
  not_finite += std::string("\0\0\xc0\x7f", 4);
  State other_step = sample_contents(20).state;
  other_step.step = 21;
  const std::vector<Row> rows = {
      {"model.safetensors", "PK\x03\x04 a zip archive", "exceeds the file"},
      {"model.safetensors", "", "header: exceeds the file"},
      {"model.safetensors", not_finite, "tensor \"x\": holds values that are not finite"},
      {"state.json", encode(other_step), "step 21 and fingerprint"},
      {"state.json", "{}", "\"version\" is missing"},
  };
  const fs::path manifest_path = newest() / "MANIFEST.json";
  const std::string manifest_text = read_bytes(manifest_path);
  for (const Row& row : rows) {
    const std::string whole = read_bytes(newest() / row.file);
    write_bytes(newest() / row.file, row.content);
    Manifest manifest = decode_manifest(manifest_text, "");
    for (FileEntry& entry : manifest.files) {
      if (entry.name != row.file) continue;
      entry.bytes = row.content.size();
      entry.crc32 = checksum(std::as_bytes(std::span(row.content)));
      entry.chunks.assign(row.content.empty() ? 0 : 1, entry.crc32);
    }
    write_bytes(manifest_path, encode(manifest));
    EXPECT_THAT(refusal(), HasSubstr(row.message));
    write_bytes(newest() / row.file, whole);
  }
  Manifest manifest = decode_manifest(manifest_text, "");
  manifest.files.pop_back();
  write_bytes(manifest_path, encode(manifest));
  EXPECT_THAT(refusal(), HasSubstr("does not list exactly"));
}

TEST_F(Reader, a_damaged_chunk_is_named_with_its_tensor) {
  test::TemporaryDirectory large;
  Contents contents = sample_contents(1);
  contents.model = {{.name = "a", .dims = {100}, .values = std::vector<float>(100, 1)},
                    {.name = "b", .dims = {300000}, .values = std::vector<float>(300000, 2)}};
  const fs::path path = Publisher(files_, large.path(), 1).publish(contents).path;
  std::string bytes = read_bytes(path / "model.safetensors");
  ASSERT_TRUE(load(path).model == contents.model);
  bytes[kChunkBytes + 5] ^= 1;
  write_bytes(path / "model.safetensors", bytes);
  try {
    load(path);
    ADD_FAILURE() << "loaded a damaged checkpoint";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("tensor \"b\": chunk 1 (bytes 1048576 to 12"));
  }
}

TEST_F(Reader, swapped_chunks_are_refused) {
  test::TemporaryDirectory large;
  Contents contents = sample_contents(1);
  contents.model = {sample_tensor("a", {3, 1 << 18}, 1)};
  const fs::path path = Publisher(files_, large.path(), 1).publish(contents).path;
  std::string bytes = read_bytes(path / "model.safetensors");
  std::swap_ranges(bytes.begin() + kChunkBytes, bytes.begin() + 2 * kChunkBytes,
                   bytes.begin() + 2 * kChunkBytes);
  write_bytes(path / "model.safetensors", bytes);
  EXPECT_THROW(load(path), Error);
}

// A read error is not damage of the file, but its checkpoint can't be had: the one before is taken.
TEST_F(Reader, an_error_at_any_read_of_the_newest_takes_the_one_before) {
  FaultyFileSystem counting;
  load(counting, newest());
  for (int fail_at = 1; fail_at <= counting.calls; ++fail_at) {
    FaultyFileSystem files;
    files.fail_at = fail_at;
    const auto loaded = load_latest(files, directory());
    ASSERT_TRUE(loaded);
    EXPECT_TRUE(loaded->contents == sample_contents(10)) << fail_at;
    EXPECT_THAT(loaded->refused, ElementsAre(HasSubstr("Input/output error")));
  }
}

TEST_F(Reader, when_none_can_be_read_the_volume_is_blamed) {
  FaultyFileSystem files;
  files.fail_call = "read";
  try {
    load_latest(files, directory());
    ADD_FAILURE() << "loaded what can't be read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kVolume);
    EXPECT_THAT(error.what(), HasSubstr("Input/output error"));
  }
  try {
    load(files, newest());
    ADD_FAILURE() << "loaded what can't be read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kVolume);
  }
}

TEST_F(Reader, tells_of_five_and_counts_the_rest) {
  for (int step = 100; step < 400; ++step) {
    fs::create_directory(directory() / to_text({.generation = 1, .step = step}));
  }
  const auto loaded = load_latest(directory());
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->refused.size(), 6U);
  EXPECT_THAT(loaded->refused.front(), HasSubstr("step-00000399.g1"));
  EXPECT_EQ(loaded->refused.back(), "295 older ones");

  fs::remove_all(newest());
  fs::remove_all(previous());
  try {
    load_latest(directory());
    ADD_FAILURE() << "loaded a damaged checkpoint";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_LT(std::string(error.what()).size(), 1000U);
  }
}

TEST_F(Reader, a_file_in_the_place_of_the_directory_is_bad_input) {
  write_bytes(directory() / "file", "");
  try {
    load_latest(directory() / "file");
    ADD_FAILURE() << "loaded from a file";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr("not a directory"));
  }
}

// Written by the version of the name and never changed: every later version reads it.
TEST(ReaderCorpus, reads_the_checkpoints_of_every_released_version) {
  Contents contents = sample_contents(42);
  EXPECT_TRUE(load("tests/golden/checkpoint/version-1") == contents);
  contents.state.rolled_over = 5;
  contents.state.dataset = {{"classes", "10"}, {"samples", "60000"}};
  EXPECT_TRUE(load("tests/golden/checkpoint/version-2") == contents);
}

}  // namespace
}  // namespace coxswain::checkpoint
