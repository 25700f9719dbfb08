#include "trainer/unexpected_error.h"

#include <fmt/format.h>

#include <system_error>

namespace coxswain {

std::string words_of(const std::exception& unexpected) {
  const auto* of_system = dynamic_cast<const std::system_error*>(&unexpected);
  if (of_system && of_system->code() == std::errc::resource_unavailable_try_again)
    return "no more threads may be started: lower threads or data.workers, or raise the limit of "
           "processes (ulimit -u, or a pod's limit of PIDs)";
  return fmt::format("internal error: {}", unexpected.what());
}

}  // namespace coxswain
