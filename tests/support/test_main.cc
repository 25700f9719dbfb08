#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>

#include "tests/support/test_flags.h"

namespace coxswain::test {

namespace {

TestFlags& mutable_flags() {
  static TestFlags value;
  return value;
}

}  // namespace

const TestFlags& flags() { return mutable_flags(); }

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "coxswain-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed: " + name);
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void expect_golden(const std::string& name, const std::string& actual) {
  const std::filesystem::path file = std::filesystem::path("tests/golden") / name;
  if (flags().rewrite) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << actual;
    return;
  }
  std::ifstream in(file);
  std::stringstream expected;
  expected << in.rdbuf();
  EXPECT_TRUE(in.good()) << file << " is missing: run with --rewrite";
  EXPECT_EQ(expected.str(), actual)
      << "differs from " << file << "; if intended, run with --rewrite";
}

}  // namespace coxswain::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  auto& flags = coxswain::test::mutable_flags();
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--rewrite") {
      flags.rewrite = true;
    } else if (argument == "--seed" && i + 1 < argc) {
      flags.seed = std::strtoull(argv[++i], nullptr, 10);
      flags.seed_given = true;
    } else {
      std::cerr << "unknown flag " << argument << "; known: --seed N, --rewrite, --gtest_*\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
