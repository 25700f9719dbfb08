#include "trainer/contract/worker/ssh_command.h"

#include <fmt/format.h>

namespace coxswain::contract {

std::vector<std::string> ssh_command(const std::string& host, const std::string& script) {
  std::vector<std::string> command = {"ssh", "-T", "-a", "-x"};
  for (const char* option :
       {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3"})
    command.insert(command.end(), {"-o", option});
  command.push_back(host);
  command.push_back(fmt::format("exec sh -c '{}'", script));  // whatever the login shell is
  return command;
}

}  // namespace coxswain::contract
