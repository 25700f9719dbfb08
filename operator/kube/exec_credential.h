#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::kube {

// Value. The `exec` of a kubeconfig's user.
struct ExecPlugin {
  std::string api_version;           // client.authentication.k8s.io/v1 or v1beta1
  std::vector<std::string> command;  // with its arguments; no shell
  std::map<std::string, std::string> environment;
};

// Value. What such a program gives: a token, or a certificate and its key in PEM.
struct ExecCredential {
  std::string token;
  std::string certificate_pem;
  std::string key_pem;
};

// Runs the program, 10 s at most, and reads the ExecCredential that it prints. Throws
// Error(kBadInput) naming the program and what went wrong, never what it printed.
ExecCredential run_exec_plugin(const ExecPlugin& plugin);

// What a program printed. Throws like run_exec_plugin.
ExecCredential parse_exec_credential(std::string_view text, const ExecPlugin& plugin);

}  // namespace coxswain::kube
