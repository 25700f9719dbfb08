#include "trainer/world_claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace coxswain {
namespace {

using ::testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

// The refusal's message; empty: it was accepted.
std::string refusal(int joined, const Environment& environment) {
  try {
    require_whole_world(joined, [&](const std::string& name) {
      const auto found = environment.find(name);
      return found == environment.end() ? std::nullopt : std::optional(found->second);
    });
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "";
}

TEST(WorldClaim, refuses_to_train_alone_as_one_of_many) {
  const std::pair<Environment, std::string> cases[] = {
      {{{"COXSWAIN_WORLD_SIZE", "4"}}, "COXSWAIN_WORLD_SIZE=4 (a job)"},
      {{{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}, "PMI_SIZE=2 (MPICH or Intel MPI)"},
      {{{"MV2_COMM_WORLD_SIZE", "3"}}, "MV2_COMM_WORLD_SIZE=3 (MVAPICH)"},
      {{{"SLURM_STEP_NUM_TASKS", "8"}}, "SLURM_STEP_NUM_TASKS=8 (srun)"},
      {{{"HOROVOD_SIZE", "2"}}, "HOROVOD_SIZE=2"},
      {{{"WORLD_SIZE", "2"}}, "WORLD_SIZE=2 (torchrun)"},
      {{{"PMIX_RANK", "1"}}, "PMIX_RANK=1"},
  };
  for (const auto& [environment, claim] : cases) {
    EXPECT_THAT(refusal(1, environment), HasSubstr(claim));
    EXPECT_THAT(refusal(1, environment), HasSubstr("`launcher: MPI`"));
    EXPECT_THAT(refusal(1, environment), HasSubstr("Open MPI's mpirun"));
  }
}

TEST(WorldClaim, refuses_a_world_that_open_mpi_made_too_small) {
  EXPECT_THAT(refusal(2, {{"OMPI_COMM_WORLD_SIZE", "2"}, {"COXSWAIN_WORLD_SIZE", "4"}}),
              HasSubstr("COXSWAIN_WORLD_SIZE=4"));
  // Open MPI's mpirun, and a library of another MPI within.
  EXPECT_THAT(refusal(1, {{"OMPI_COMM_WORLD_SIZE", "2"}}), HasSubstr("OMPI_COMM_WORLD_SIZE=2"));
}

TEST(WorldClaim, accepts_a_world_that_was_joined_and_one_of_one) {
  EXPECT_EQ(refusal(1, {}), "");
  EXPECT_EQ(refusal(1, {{"COXSWAIN_WORLD_SIZE", "1"}, {"PMI_SIZE", "1"}, {"PMIX_RANK", "0"}}), "");
  EXPECT_EQ(refusal(1, {{"PMI_SIZE", "many"}}), "");
  EXPECT_EQ(refusal(4, {{"OMPI_COMM_WORLD_SIZE", "4"}, {"COXSWAIN_WORLD_SIZE", "4"}}), "");
  // mpirun within an allocation of SLURM, started by a script's srun.
  EXPECT_EQ(
      refusal(2,
              {{"OMPI_COMM_WORLD_SIZE", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"PMIX_RANK", "1"}}),
      "");
}

}  // namespace
}  // namespace coxswain
