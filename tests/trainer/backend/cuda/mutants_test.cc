#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "tests/support/cuda_host/device.h"
#include "tests/trainer/backend/cuda/kernel_checks.h"

// Whether the checks would notice: each barrier, event and wait of the sources is left out in turn,
// and with some of the seeds something must come out otherwise.
namespace coxswain::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMutantSeeds = 16;

// "norm.cu:57", of all calls that wait or that others wait for.
std::vector<std::string> places_in_the_sources() {
  constexpr std::string_view kCalls[] = {"__syncthreads(",         "__syncwarp(",
                                         "cudaEventRecord(",       "cudaEventSynchronize(",
                                         "cudaStreamSynchronize(", "cudaDeviceSynchronize(",
                                         "cudaStreamWaitEvent("};
  std::vector<std::string> result;
  for (const auto& entry : fs::recursive_directory_iterator("trainer/backend/cuda")) {
    std::ifstream file(entry.path());
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
      const auto holds = [&](std::string_view call) { return line.find(call) != line.npos; };
      if (std::ranges::any_of(kCalls, holds))
        result.push_back(fmt::format("{}:{}", entry.path().filename().string(), number));
    }
  }
  return result;
}

bool is_noticed() {
  for (std::uint64_t seed = 0; seed < kMutantSeeds; ++seed) {
    if (!check_everything(seed).empty()) return true;
  }
  return false;
}

TEST(CudaMutants, nothing_is_found_where_nothing_is_left_out) {
  for (std::uint64_t seed = 0; seed < kMutantSeeds; ++seed)
    EXPECT_EQ(check_everything(seed), "") << "seed " << seed;
}

TEST(CudaMutants, each_barrier_event_and_wait_is_missed) {
  cuda_host::forget_places();
  ASSERT_EQ(check_everything(0), "");
  const std::vector<cuda_host::Place> places = cuda_host::places();
  std::vector<std::string> met;
  for (const cuda_host::Place& place : places)
    met.push_back(fmt::format("{}:{}", place.file, place.line));
  EXPECT_THAT(met, testing::UnorderedElementsAreArray(places_in_the_sources()));
  for (const cuda_host::Place& place : places) {
    cuda_host::leave_out(place);
    EXPECT_TRUE(is_noticed()) << fmt::format("nothing fails without the {} at {}:{}", place.kind,
                                             place.file, place.line);
  }
  cuda_host::leave_out(std::nullopt);
}

}  // namespace
}  // namespace coxswain::test
