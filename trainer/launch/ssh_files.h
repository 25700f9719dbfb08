#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainer/contract/worker/constants.h"

namespace coxswain::launch {

// Value. What the SSH daemon and client of a pod are told. OpenSSH 9 without any privilege: keys
// belong to root and are readable by the pod's group, as a projected volume gives them.
struct SshSettings {
  std::filesystem::path keys = contract::kKeysDirectory;
  std::filesystem::path directory = contract::kRunDirectory;  // of the files written here
  std::filesystem::path trainer;  // this program, which sshd starts for whoever comes
  int attempt = 0;                // of the gang; no other gets in
  int port = contract::kSshPort;  // of every pod
};

// PURE: the files' text. Nobody gets a shell, a terminal or a forwarded port: whatever is asked
// for, `coxswain-trainer remote` is executed, and decides.
std::string sshd_config(const SshSettings& settings);
std::string ssh_config(const SshSettings& settings);

std::filesystem::path sshd_config_file(const std::filesystem::path& directory);
std::filesystem::path ssh_config_file(const std::filesystem::path& directory);

// The variable in which the client tells its attempt.
inline constexpr const char* kPeerAttempt = "COXSWAIN_PEER_ATTEMPT";
// What the client asks for to learn whether a host is there.
inline constexpr const char* kAreYouThere = "ready";

// PURE: a shell's command line as its words: quotes and backslashes, and nothing that a shell would
// do beyond that. Throws Error(2) for text that is more than one plain command; what Open MPI puts
// around it for Bourne shells does not count.
std::vector<std::string> words_of_command(const std::string& line);

}  // namespace coxswain::launch
