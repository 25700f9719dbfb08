#include "operator/open_files.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "trainer/contract/error.h"

namespace coxswain {

namespace {

// mpirun of Open MPI 4.1 takes 32, and 4 pipes for each rank: twice as many.
constexpr rlim_t kOfALauncher = 64;
constexpr rlim_t kOfARank = 8;

}  // namespace

void allow_open_files(int ranks) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t needed = kOfALauncher + kOfARank * static_cast<rlim_t>(std::max(ranks, 1));
  if (limit.rlim_cur >= needed) return;
  if (limit.rlim_max < needed)
    throw Error(ExitCode::kBadInput,
                fmt::format("[run] {} files may be open at once (ulimit -n), and {} ranks take {}: "
                            "raise the limit, or lower the number of ranks",
                            limit.rlim_max, ranks, needed));
  limit.rlim_cur = needed;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace coxswain
