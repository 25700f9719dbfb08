#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "operator/kube/config.h"

namespace coxswain::kube {

// Value. What such a program gives.
struct ExecCredential {
  Credential credential;  // a token, or a certificate and its key
  std::optional<std::chrono::system_clock::time_point> expiry;  // none: good until it is refused
};

// Runs the program, 10 s at most, and reads the ExecCredential that it prints. Throws
// Error(kBadInput) naming the program and what went wrong, never what it printed.
ExecCredential run_exec_plugin(const ExecPlugin& plugin);

// What a program printed. Throws like run_exec_plugin.
ExecCredential parse_exec_credential(std::string_view text, const ExecPlugin& plugin);

}  // namespace coxswain::kube
