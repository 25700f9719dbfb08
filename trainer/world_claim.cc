#include "trainer/world_claim.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "trainer/contract/printable.h"

namespace coxswain {

namespace {

// A variable that tells a process how many there are, and who sets it.
struct Claim {
  const char* variable;
  const char* who;
};

constexpr Claim kJob{"COXSWAIN_WORLD_SIZE", "a job"};
constexpr Claim kOpenMpi{kOpenMpiSize, "Open MPI"};

// Launchers that are not Open MPI's. mpirun's own processes may inherit these from the outside.
constexpr Claim kOthers[] = {
    {"PMI_SIZE", "MPICH or Intel MPI"}, {"MV2_COMM_WORLD_SIZE", "MVAPICH"},
    {"SLURM_STEP_NUM_TASKS", "srun"},   {"HOROVOD_SIZE", "horovodrun"},
    {"WORLD_SIZE", "torchrun"},
};

int number_of(const std::optional<std::string>& text) {
  int number = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), number);
  return number;
}

[[noreturn]] void refuse(const std::string& claim, const char* who, int joined) {
  throw Error(
      ExitCode::kBadInput,
      fmt::format("[comm] {} ({}) says that there are more ranks than the {} joined here: each "
                  "would train a model apart. In a job write `launcher: MPI`; by hand start the "
                  "ranks with Open MPI's mpirun; to train with one rank alone, unset it",
                  claim, who, joined));
}

}  // namespace

void require_whole_world(int joined, const contract::EnvironmentLookup& lookup) {
  std::vector<Claim> claims = {kJob, kOpenMpi};
  const bool by_open_mpi = lookup(kOpenMpiSize).has_value();
  if (!by_open_mpi) claims.insert(claims.end(), std::begin(kOthers), std::end(kOthers));
  for (const auto& [variable, who] : claims) {
    const int size = number_of(lookup(variable));
    if (size > joined) refuse(fmt::format("{}={}", variable, size), who, joined);
  }
  // PMIx tells a rank and no size. Rank 0 is refused with the others: their end takes it along.
  const int rank = by_open_mpi ? 0 : number_of(lookup("PMIX_RANK"));
  if (rank >= joined) refuse(fmt::format("PMIX_RANK={}", rank), "a launcher with PMIx", joined);
}

}  // namespace coxswain
