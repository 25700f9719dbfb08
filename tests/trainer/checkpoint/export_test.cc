#include "trainer/checkpoint/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/test_flags.h"
#include "tests/trainer/checkpoint/faulty_file_system.h"
#include "tests/trainer/checkpoint/sample_checkpoint.h"
#include "trainer/checkpoint/publisher.h"
#include "trainer/contract/error.h"

namespace coxswain::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

// A checkpoint, and a directory to export to.
class Export : public ::testing::Test {
 protected:
  Export() : checkpoint_(Publisher(files_, from_.path(), 1).publish(sample_contents(10)).path) {}

  fs::path at(const std::string& name) const { return to_.path() / name; }
  std::string model() const { return read_bytes(checkpoint_ / "model.safetensors"); }

  // Why the export is refused; nothing may have changed then.
  std::string refusal(const fs::path& output) {
    const auto before = names_in(to_.path());
    std::string message;
    try {
      export_model(files_, checkpoint_, output);
      ADD_FAILURE() << output << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      message = error.what();
    }
    EXPECT_EQ(names_in(to_.path()), before);
    return message;
  }

  PosixFileSystem files_;
  test::TemporaryDirectory from_;
  test::TemporaryDirectory to_;
  fs::path checkpoint_;
};

TEST_F(Export, makes_a_file_or_replaces_one) {
  export_model(files_, checkpoint_, at("new"));
  EXPECT_EQ(read_bytes(at("new")), model());
  write_bytes(at("old"), "what was there");
  export_model(files_, checkpoint_, at("old"));
  EXPECT_EQ(read_bytes(at("old")), model());
  EXPECT_THAT(names_in(to_.path()), ElementsAre("new", "old"));
}

TEST_F(Export, replaces_nothing_but_files) {
  write_bytes(at("file"), "x");
  fs::create_symlink("file", at("link"));
  fs::create_symlink("nowhere", at("broken-link"));
  fs::create_directory(at("directory"));
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  EXPECT_THAT(refusal(at("link")), HasSubstr("is a link"));
  EXPECT_THAT(refusal(at("broken-link")), HasSubstr("is a link"));
  EXPECT_THAT(refusal(at("directory")), HasSubstr("is a directory"));
  EXPECT_THAT(refusal(at("fifo")), HasSubstr("is a FIFO"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("is a device"));
  EXPECT_THAT(refusal(""), HasSubstr("is no name of a file"));
  EXPECT_THAT(refusal(at("directory") / ""), HasSubstr("is no name of a file"));
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_EQ(read_bytes(at("file")), "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(Export, a_failure_at_any_call_leaves_nothing_behind) {
  FaultyFileSystem counting;
  export_model(counting, checkpoint_, at("counted"));
  fs::remove(at("counted"));
  ASSERT_GE(counting.calls, 7);
  for (int fail_at = 0; fail_at < counting.calls; ++fail_at) {
    FaultyFileSystem files;
    files.fail_at = fail_at;
    try {
      export_model(files, checkpoint_, at("model"));
      ADD_FAILURE() << "call " << fail_at << " failed unseen";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kVolume);
    }
    EXPECT_THAT(names_in(to_.path()), IsEmpty()) << fail_at;
  }
}

}  // namespace
}  // namespace coxswain::checkpoint
