#include "trainer/gpu_choice.h"

#include <gtest/gtest.h>

#include "trainer/contract/error.h"

namespace coxswain {
namespace {

struct Row {
  const char* name;
  Device device;
  GpuSeat seat;
  std::optional<int> gpu;
  const char* error = "";
};

TEST(GpuChoice, is_the_ranks_place_on_its_machine) {
  const std::vector<Row> rows = {
      {"the CPU", Device::kCpu, {.gpus = 8, .ranks_here = 8, .local_rank = 3}, std::nullopt},
      {"one", Device::kCuda, {.gpus = 1}, 0},
      {"the last of eight", Device::kCuda, {.gpus = 8, .ranks_here = 8, .local_rank = 7}, 7},
      {"fewer ranks than GPUs", Device::kCuda, {.gpus = 8, .ranks_here = 2, .local_rank = 1}, 1},
      {"none: the backend says why", Device::kCuda, {.gpus = 0, .ranks_here = 2}, 0},
      {"auto takes one", Device::kAuto, {.gpus = 2, .ranks_here = 2, .local_rank = 1}, 1},
      {"auto without one", Device::kAuto, {.gpus = 0, .ranks_here = 4, .local_rank = 1}, {}},
      {"too many ranks",
       Device::kCuda,
       {.gpus = 2, .ranks_here = 4, .local_rank = 1},
       {},
       "[cuda] 4 ranks on this machine, and 2 GPUs to be seen: a rank takes one: lower workers or "
       "slotsPerWorker, or say device: cpu"},
      {"few are visible",
       Device::kAuto,
       {.gpus = 1, .ranks_here = 2, .local_rank = 0, .visible = "3"},
       {},
       "[cuda] 2 ranks on this machine, and 1 GPU to be seen (CUDA_VISIBLE_DEVICES=3): a rank "
       "takes one: lower workers or slotsPerWorker, or say device: cpu"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    try {
      EXPECT_EQ(choose_gpu(row.device, row.seat), row.gpu);
      EXPECT_STREQ(row.error, "");
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), row.error);
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
    }
  }
}

TEST(GpuChoice, is_of_one_kind_on_all_ranks) {
  EXPECT_NO_THROW(require_one_kind({true, true}));
  EXPECT_NO_THROW(require_one_kind({false}));
  try {
    require_one_kind({true, true, false, true});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[cuda] rank 2 sees no GPU, and rank 0 does: give GPUs to all ranks, or say "
                 "device: cpu");
  }
}

}  // namespace
}  // namespace coxswain
