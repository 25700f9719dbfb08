#pragma once

#include <cstdint>
#include <string>

namespace coxswain::test {

// Runs a backend on the host's device with this seed, through all that waits for something: kernels
// with barriers, steps that nobody waits for, writes and snapshots in a row, an arena that grows.
// Empty, or the first thing that came out otherwise than the reference has it.
std::string check_everything(std::uint64_t seed);

}  // namespace coxswain::test
