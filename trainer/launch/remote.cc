#include "trainer/launch/remote.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "trainer/contract/error.h"
#include "trainer/contract/worker/constants.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/contract/worker/worker_env.h"
#include "trainer/launch/ssh_files.h"

namespace coxswain::launch {

namespace {

// Those of this pod, of the same attempt as whoever comes.
std::map<std::string, std::string> pod_environment() {
  const auto environment = contract::load_environment(contract::kRunDirectory);
  const auto own = environment.find("COXSWAIN_ATTEMPT");
  const std::string peer = contract::lookup_environment(kPeerAttempt).value_or("none");
  if (own == environment.end() || own->second != peer)
    throw Error(ExitCode::kPeersMissing,
                fmt::format("[remote] this pod is of attempt {}, the peer of {}",
                            own == environment.end() ? "none" : own->second, peer));
  return environment;
}

bool is_daemon(const std::string& program) {
  const std::string name = std::filesystem::path(program).filename();
  return name == "orted" || name == "prted";
}

[[noreturn]] void become(const std::vector<std::string>& words,
                         const std::map<std::string, std::string>& environment) {
  clearenv();
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  throw Error(ExitCode::kBadInput,
              fmt::format("[remote] can't start {}: {}", words.front(), std::strerror(errno)));
}

}  // namespace

int run_remote() {
  const auto environment = pod_environment();
  const std::string line = contract::lookup_environment("SSH_ORIGINAL_COMMAND").value_or("");
  const std::vector<std::string> words = words_of_command(line);
  if (words.size() == 1 && words.front() == kAreYouThere) return 0;
  if (words.empty() || !is_daemon(words.front()))
    throw Error(ExitCode::kUsage,
                fmt::format("[remote] only mpirun's daemon may be started here, not \"{}\"",
                            line.substr(0, 120)));
  become(words, environment);
}

}  // namespace coxswain::launch
