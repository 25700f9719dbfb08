#pragma once

#include "trainer/contract/worker/worker_env.h"

namespace coxswain {

// Open MPI's launchers set it for each process that they start; nobody else does.
inline constexpr const char* kOpenMpiSize = "OMPI_COMM_WORLD_SIZE";

// Throws Error(65) when the environment says that this process is one of more ranks than it has
// `joined`: each would train a model of its own, and all would succeed. The message names the
// variable and what to write instead.
void require_whole_world(int joined, const contract::EnvironmentLookup& lookup);

}  // namespace coxswain
