#include "trainer/launch/ssh_files.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "trainer/contract/error.h"

namespace coxswain::launch {

namespace {

constexpr std::string_view kMeaningToShells = ";|&<>()$`*?[]{}~#!\n";

[[noreturn]] void refuse(const std::string& line) {
  throw Error(ExitCode::kUsage, fmt::format("[remote] no plain command: {}", line.substr(0, 120)));
}

// Open MPI has Bourne shells read the user's profile first, which a pod has not.
std::string without_profile(const std::string& line) {
  constexpr std::string_view kBefore = "( test ! -r ./.profile || . ./.profile;";
  const std::size_t end = line.find_last_not_of(' ');
  if (!line.starts_with(kBefore) || line[end] != ')') return line;
  return line.substr(kBefore.size(), end - kBefore.size());
}

// The text after the quote at `start`, up to its end; `start` then stands on the closing quote.
std::string quoted(const std::string& line, std::size_t& start) {
  const char quote = line[start];
  std::string text;
  for (std::size_t i = start + 1; i < line.size(); ++i) {
    char c = line[i];
    if (c == quote) {
      start = i;
      return text;
    }
    if (quote == '"' && c == '\\' && i + 1 < line.size() &&
        std::string_view("\"\\$`").find(line[i + 1]) != std::string_view::npos) {
      c = line[++i];
    } else if (quote == '"' && (c == '$' || c == '`')) {
      refuse(line);
    }
    text += c;
  }
  refuse(line);
}

}  // namespace

std::string sshd_config(const SshSettings& settings) {
  const auto key = [&](std::string_view file) { return (settings.keys / file).string(); };
  std::string text;
  text += fmt::format("Port {}\n", settings.port);
  text += fmt::format("HostKey {}\n", key(contract::kHostKeyFile));
  text += fmt::format("AuthorizedKeysFile {}\n", key(contract::kAuthorizedKeysFile));
  text += fmt::format("ForceCommand {} remote\n", settings.trainer.string());
  text += fmt::format("AcceptEnv {}\n", kPeerAttempt);
  text +=
      "PidFile none\n"
      "StrictModes no\n"  // the volume's directories are the group's
      "UsePAM no\n"
      "PasswordAuthentication no\n"
      "KbdInteractiveAuthentication no\n"
      "DisableForwarding yes\n"
      "PermitTTY no\n"
      "PermitUserRC no\n"
      "PrintMotd no\n"
      "UseDNS no\n"
      "ClientAliveInterval 15\n"
      "MaxStartups 256\n"
      "LogLevel FATAL\n";  // every TCP probe is an error to it
  return text;
}

std::string ssh_config(const SshSettings& settings) {
  const auto key = [&](std::string_view file) { return (settings.keys / file).string(); };
  std::string text = "Host *\n";
  text += fmt::format("Port {}\n", settings.port);
  text += fmt::format("IdentityFile {}\n", key(contract::kClientKeyFile));
  text += fmt::format("UserKnownHostsFile {}\n", key(contract::kKnownHostsFile));
  text += fmt::format("SetEnv {}={}\n", kPeerAttempt, settings.attempt);
  text +=
      "IdentitiesOnly yes\n"
      "GlobalKnownHostsFile /dev/null\n"
      "StrictHostKeyChecking yes\n"
      "UpdateHostKeys no\n"
      "BatchMode yes\n"
      "PreferredAuthentications publickey\n"
      "ConnectTimeout 20\n"
      "ConnectionAttempts 3\n"  // mpirun asks once
      "ServerAliveInterval 5\n"
      "LogLevel ERROR\n";
  return text;
}

std::filesystem::path sshd_config_file(const std::filesystem::path& directory) {
  return directory / "sshd_config";
}

std::filesystem::path ssh_config_file(const std::filesystem::path& directory) {
  return directory / "ssh_config";
}

std::vector<std::string> words_of_command(const std::string& given) {
  const std::string line = without_profile(given);
  std::vector<std::string> words;
  std::string word;
  bool inside = false;  // of a word; "" is one too
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == ' ' || c == '\t') {
      if (inside) words.push_back(std::exchange(word, ""));
      inside = false;
      continue;
    }
    inside = true;
    if (c == '"' || c == '\'') {
      word += quoted(line, i);
    } else if (c == '\\') {
      if (++i == line.size()) refuse(line);
      word += line[i];
    } else if (kMeaningToShells.find(c) != std::string_view::npos) {
      refuse(line);
    } else {
      word += c;
    }
  }
  if (inside) words.push_back(word);
  return words;
}

}  // namespace coxswain::launch
