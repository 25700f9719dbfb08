#include "trainer/contract/program/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "tests/support/test_flags.h"
#include "trainer/contract/error.h"

namespace coxswain {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string refusal(const fs::path& output) {
  try {
    require_output_file("--output", output);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage) << output;
    return error.what();
  }
  return "";
}

TEST(OutputFile, is_a_new_one_or_a_file_that_is_there) {
  const test::TemporaryDirectory at;
  std::ofstream(at.path() / "file") << "x";
  EXPECT_EQ(refusal(at.path() / "new"), "");
  EXPECT_EQ(refusal(at.path() / "file"), "");
  EXPECT_EQ(refusal(at.path() / "nowhere" / "new"), "");  // says so when it is written
}

TEST(OutputFile, takes_the_place_of_nothing_else) {
  const test::TemporaryDirectory at;
  fs::create_symlink("file", at.path() / "link");
  fs::create_directory(at.path() / "directory");
  ASSERT_EQ(::mkfifo((at.path() / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(refusal(at.path() / "link"), HasSubstr("is a link: name a new file"));
  EXPECT_THAT(refusal(at.path() / "directory"), HasSubstr("is a directory"));
  EXPECT_THAT(refusal(at.path() / "fifo"), HasSubstr("is a FIFO"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("--output \"/dev/null\" is a device"));
  EXPECT_THAT(refusal(""), HasSubstr("is no name of a file"));
  EXPECT_THAT(refusal(at.path() / "directory" / ""), HasSubstr("is no name of a file"));
}

TEST(OutputFile, is_told_on_one_line) {
  const test::TemporaryDirectory at;
  fs::create_directory(at.path() / "a\nb\x1b[31m");
  EXPECT_THAT(refusal(at.path() / "a\nb\x1b[31m"), HasSubstr("/a\\nb\\x1b[31m\" is a directory"));
}

}  // namespace
}  // namespace coxswain
