#include "trainer/gpu_affinity.h"

#include <gtest/gtest.h>

#include <fstream>
#include <latch>
#include <thread>

#include "tests/support/test_flags.h"

namespace coxswain {
namespace {

TEST(Cores, are_read_as_linux_lists_them_and_written_so) {
  EXPECT_EQ(parse_cores("0-3,8"), (Cores{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cores("5"), Cores{5});
  for (const char* text : {"", "a", "1-", "-1", "3-1", "1,", ",1", "1 2", "0-1048576", "0x1"})
    EXPECT_EQ(parse_cores(text), std::nullopt) << text;
  EXPECT_EQ(to_text({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(to_text({}), "");
}

TEST(GpuAffinity, is_the_cores_beside_the_gpu_that_may_be_used) {
  struct Case {
    const char* name;
    DevicePlace place;
    Cores allowed;
    std::optional<Cores> cores;
  };
  for (const Case& c : {
           Case{"the second socket", {"1", "4-7"}, {0, 1, 2, 3, 4, 5, 6, 7}, Cores{4, 5, 6, 7}},
           Case{"a pod with some of each", {"0", "0-3"}, {2, 3, 4, 5}, Cores{2, 3}},
           Case{"a pod with none of these", {"0", "0-3"}, {4, 5}, std::nullopt},
           Case{"no others", {"0", "0-7"}, {2, 3}, std::nullopt},
           Case{"Linux doesn't know", {"-1", "0-3"}, {2, 3, 4}, std::nullopt},
           Case{"nor says anything", {}, {2, 3, 4}, std::nullopt},
           Case{"nor a list", {"0", "all"}, {2, 3, 4}, std::nullopt},
       }) {
    EXPECT_EQ(cores_beside(c.place, c.allowed), c.cores) << c.name;
  }
}

TEST(GpuAffinity, reads_the_place_of_a_device) {
  const test::TemporaryDirectory root;
  std::filesystem::create_directories(root.path() / "0000:3b:00.0");
  std::ofstream(root.path() / "0000:3b:00.0" / "numa_node") << "1\n";
  std::ofstream(root.path() / "0000:3b:00.0" / "local_cpulist") << "4-7\n";
  const DevicePlace place = place_of_device("0000:3B:00.0", root.path());
  EXPECT_EQ(place.numa_node, "1");
  EXPECT_EQ(place.cores, "4-7");
  EXPECT_EQ(place_of_device("0000:3C:00.0", root.path()).numa_node, "");
  EXPECT_EQ(place_of_device("", root.path()).numa_node, "");
}

TEST(GpuAffinity, binds_threads_that_run_and_those_to_come) {
  const Cores before = allowed_cores();
  const Cores one{*before.rbegin()};
  std::latch bound(1);
  Cores of_running;
  Cores of_new;
  {
    const std::jthread running([&] {
      bound.wait();
      of_running = allowed_cores();
    });
    EXPECT_TRUE(bind_to(one));
    bound.count_down();
    const std::jthread started_later([&] { of_new = allowed_cores(); });
  }
  EXPECT_EQ(of_running, one);
  EXPECT_EQ(of_new, one);
  EXPECT_TRUE(bind_to(before));
  EXPECT_EQ(allowed_cores(), before);
}

}  // namespace
}  // namespace coxswain
