#include "trainer/cpu_quota.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/support/test_flags.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;

TEST(CpuQuota, is_quota_over_period) {
  struct Case {
    std::string text;
    std::optional<double> cores;
  };
  for (const Case& c : {
           Case{"200000 100000\n", 2},
           Case{"150000 100000", 1.5},
           Case{"50000\n100000\n", 0.5},
           Case{"1600 100", 16},
           Case{"max 100000\n", std::nullopt},
           Case{"-1 100000", std::nullopt},
           Case{"0 100000", std::nullopt},
           Case{"100000 0", std::nullopt},
           Case{"100000", std::nullopt},
           Case{" ", std::nullopt},
           Case{"", std::nullopt},
           Case{"all of them", std::nullopt},
       }) {
    EXPECT_EQ(cores_of_quota(c.text), c.cores) << '"' << c.text << '"';
  }
}

TEST(CpuQuota, is_found_where_either_version_of_cgroups_keeps_it) {
  struct Case {
    std::string what;
    std::map<std::string, std::string> files;
    std::optional<double> cores;
  };
  for (const Case& c : {
           Case{"v2", {{"cpu.max", "300000 100000\n"}}, 3},
           Case{"v2 without a limit", {{"cpu.max", "max 100000\n"}}, std::nullopt},
           Case{"v1",
                {{"cpu/cpu.cfs_quota_us", "250000\n"}, {"cpu/cpu.cfs_period_us", "100000\n"}},
                2.5},
           Case{"v1 without the link",
                {{"cpu,cpuacct/cpu.cfs_quota_us", "400000\n"},
                 {"cpu,cpuacct/cpu.cfs_period_us", "100000\n"}},
                4},
           Case{"v1 without a limit",
                {{"cpu/cpu.cfs_quota_us", "-1\n"}, {"cpu/cpu.cfs_period_us", "100000\n"}},
                std::nullopt},
           Case{"v1, half of it", {{"cpu/cpu.cfs_quota_us", "200000\n"}}, std::nullopt},
           Case{"no cgroup", {}, std::nullopt},
       }) {
    const test::TemporaryDirectory root;
    for (const auto& [name, text] : c.files) {
      fs::create_directories((root.path() / name).parent_path());
      std::ofstream(root.path() / name) << text;
    }
    EXPECT_EQ(cgroup_cores(root.path()), c.cores) << c.what;
  }
}

}  // namespace
}  // namespace coxswain
