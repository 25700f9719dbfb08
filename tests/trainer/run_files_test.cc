#include "trainer/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/test_flags.h"
#include "trainer/contract/error.h"

namespace coxswain {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::filesystem::path& output) {
  try {
    require_no_file_of_a_run("--output", output);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage) << output;
    return error.what();
  }
  return "";
}

TEST(RunFiles, names_of_a_run_are_not_for_others) {
  for (const char* name : {"LATEST", "BEST", "history.jsonl", "step-00000012.g3",
                           "step-00000012.g3.r2", ".generation-3", ".run-3", ".run-3-0a1b",
                           ".epoch-2-step-00000012.g3", ".best-step-00000012.g3", ".tmp-3-LATEST"})
    EXPECT_THAT(refusal(std::filesystem::path("checkpoints") / name),
                HasSubstr("has a name that a run gives its own files: name another"))
        << name;
  for (const char* name : {"model.safetensors", "step-12.npz", "latest", "report.html",
                           ".generation-x", "step-00000012.g3.npz"})
    EXPECT_EQ(refusal(std::filesystem::path("checkpoints") / name), "") << name;
}

TEST(RunFiles, nothing_is_put_into_a_checkpoint) {
  const test::TemporaryDirectory at;
  EXPECT_EQ(refusal(at.path() / "net.onnx"), "");
  std::ofstream(at.path() / "MANIFEST.json") << "{}";
  EXPECT_THAT(refusal(at.path() / "net.onnx"), HasSubstr("is within a checkpoint"));
}

}  // namespace
}  // namespace coxswain
