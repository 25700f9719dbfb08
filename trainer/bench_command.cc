#include <fmt/format.h>

#include "trainer/commands.h"
#include "trainer/contract/error.h"

namespace coxswain {

int run_bench(const CommandLine&) {
  throw Error(ExitCode::kUsage, "not in this version");
}

}  // namespace coxswain
