#pragma once

#include <string>
#include <vector>

namespace coxswain::contract {

// The command that runs a script of sh, which holds no ', on a host: by the user's own ssh, with
// their keys and known hosts. It asks nothing, and ends within 15 s of the host's last answer.
std::vector<std::string> ssh_command(const std::string& host, const std::string& script);

}  // namespace coxswain::contract
