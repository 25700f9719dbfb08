#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trainer/contract/worker/child_process.h"

namespace coxswain::launch {

// The names in a hostfile, in rank order. Throws Error(65) if there are not `count` of them.
std::vector<std::string> read_hostfile(const std::filesystem::path& file, int count);

struct HostPatience {
  std::chrono::milliseconds deadline;        // for all of them, once each has an address
  std::chrono::milliseconds first_after{0};  // the first question
  std::chrono::milliseconds tell_every{10'000};
};

// Waits until every host answers over SSH, which proves its name, its keys and its attempt. What
// keeps each from answering is told on the error output as long as it lasts. False: SIGTERM came
// first. Throws Error(69) naming those that did not answer in time, each with ssh's last words. As
// long as a name has no address, its pod has no node, and no time is counted. `each_turn` is called
// several times a second, and may throw.
bool wait_for_hosts(const std::vector<std::string>& hosts, const std::filesystem::path& ssh_config,
                    const HostPatience& patience, contract::SignalQueue& signals,
                    const std::function<void()>& each_turn);

}  // namespace coxswain::launch
