#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trainer/contract/exit_code.h"

// PURE: how two processes of a job introduce themselves, and what they know.
namespace coxswain::net {

// The versions of the protocol that this program speaks.
inline constexpr int kOldestProtocol = 1;
inline constexpr int kNewestProtocol = 1;

// Value. Who a process is.
struct Hello {
  int oldest_protocol = kOldestProtocol;
  int newest_protocol = kNewestProtocol;
  std::string job;  // its uid, or its name where it has none
  int attempt = 0;
  int incarnation = 0;
  std::string role;  // "worker", "server"
  int rank = 0;        // among those of its role
  int world_size = 1;  // the workers' ranks
  std::string fingerprint;  // of what all ranks must have alike
  bool operator==(const Hello&) const = default;
};

std::string to_json(const Hello& hello);
// Nullopt: not a hello, or one with a number out of range.
std::optional<Hello> hello_of(std::string_view json);

// "worker 3 of attempt 1", for messages.
std::string name_of(const Hello& hello);

// Value. Why two processes may not work together.
struct Refusal {
  std::string why;
  // What the refused one ends with; 69: it may try again, the other is about to be replaced.
  ExitCode code = ExitCode::kBadInput;
  bool operator==(const Refusal&) const = default;
};

std::string to_json(const Refusal& refusal);
std::optional<Refusal> refusal_of(std::string_view json);

// Whether a process that answers as `mine` takes one that calls as `theirs`; both are named.
std::optional<Refusal> judge(const Hello& mine, const Hello& theirs);

// The newest version that both speak. Only for those that judge() lets pass.
int common_protocol(const Hello& mine, const Hello& theirs);

// 64 hex digits, with or without an end of line, as a job's Secret has them. Throws Error(65)
// naming `where` it was read for anything else.
std::string secret_of_hex(const std::string& text, const std::string& where);

}  // namespace coxswain::net
