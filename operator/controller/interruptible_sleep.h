#pragma once

#include <chrono>
#include <stop_token>

namespace coxswain::controller {

// Returns when `time` is over, or at once when `stop` is asked for.
void interruptible_sleep(std::chrono::nanoseconds time, std::stop_token stop);

}  // namespace coxswain::controller
