#include "trainer/contract/worker/worker_env.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

namespace coxswain::contract {

namespace {

constexpr int kMaxWorldSize = 4096 * 64;
constexpr int kMaxSlots = 1024;
constexpr std::size_t kMaxShownBytes = 80;
constexpr const char* kBatchPerWorker = "perWorker";
constexpr std::size_t kMaxUidBytes = 64;

[[noreturn]] void refuse(const std::string& name, const std::string& value,
                         const std::string& what) {
  throw Error(ExitCode::kBadInput,
              fmt::format("[worker] {}={}: {}", name, value.substr(0, kMaxShownBytes), what));
}

int integer(const EnvironmentLookup& lookup, const std::string& name, int fallback, int min,
            int max) {
  const auto text = lookup(name);
  if (!text || text->empty()) return fallback;
  int value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end || value < min || value > max) {
    refuse(name, *text, fmt::format("must be an integer, {}..{}", min, max));
  }
  return value;
}

// It becomes a part of a file's name.
bool is_uid(const std::string& text) {
  return text.size() <= kMaxUidBytes && std::ranges::all_of(text, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-';
         });
}

bool is_host_port(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  return error == std::errc() && stop == end && port >= 1 && port <= 65535;
}

std::vector<std::string> servers_from(const std::string& text) {
  std::vector<std::string> servers;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    servers.push_back(text.substr(start, comma - start));
    if (!is_host_port(servers.back())) {
      refuse("COXSWAIN_SERVERS", servers.back(), "must be host:port, port 1..65535");
    }
    start = comma + 1;
  }
  return servers;
}

}  // namespace

std::string_view to_text(Role role) {
  switch (role) {
    case Role::kWorker:
      return "worker";
    case Role::kServer:
      return "server";
    case Role::kScheduler:
      return "scheduler";
  }
  return "";
}

std::optional<Role> role_of(std::string_view text) {
  for (const auto& word : words_of(Role{}))
    if (text == to_text(word.value)) return word.value;
  return std::nullopt;
}

std::map<std::string, std::string> to_env(const WorkerEnv& env) {
  std::map<std::string, std::string> result{
      {"COXSWAIN_JOB", env.job},
      {"COXSWAIN_JOB_UID", env.job_uid},
      {"COXSWAIN_ROLE", std::string(to_text(env.role))},
      {"COXSWAIN_INDEX", std::to_string(env.index)},
      {"COXSWAIN_ATTEMPT", std::to_string(env.attempt)},
      {"COXSWAIN_RESTART_CAUSE", env.restart_cause},
      {"COXSWAIN_WORLD_SIZE", std::to_string(env.world_size)},
      {"COXSWAIN_SLOTS", std::to_string(env.slots)},
      {"COXSWAIN_CONFIG", env.config.string()},
      {"COXSWAIN_CHECKPOINTS", env.checkpoints.string()},
      {"COXSWAIN_HOSTFILE", env.hostfile.string()},
      {"COXSWAIN_KEY", env.key.string()},
      {"COXSWAIN_SERVERS", fmt::format("{}", fmt::join(env.servers, ","))},
      {"COXSWAIN_BATCH_ON_RESIZE", env.batch_per_worker ? kBatchPerWorker : ""},
      {"COXSWAIN_STARTUP_SECONDS", std::to_string(env.startup_seconds)},
      {"COXSWAIN_RUN_DIR", env.run_dir.string()},
      {"COXSWAIN_LOG_FORMAT", env.log_format},
  };
  // Under mpirun every rank writes to a pseudo terminal: only this tells a real one.
  if (env.terminal_columns > 0) {
    result["COXSWAIN_TERMINAL_COLUMNS"] = std::to_string(env.terminal_columns);
  }
  if (env.incarnation > 0) result["COXSWAIN_INCARNATION"] = std::to_string(env.incarnation);
  if (env.ssh_port != kSshPort) result["COXSWAIN_SSH_PORT"] = std::to_string(env.ssh_port);
  if (env.rank_port != kRankPort) result["COXSWAIN_RANK_PORT"] = std::to_string(env.rank_port);
  if (env.peer_port != kServerPort) result["COXSWAIN_PEER_PORT"] = std::to_string(env.peer_port);
  std::erase_if(result, [](const auto& variable) { return variable.second.empty(); });
  return result;
}

std::vector<std::string> worker_env_names() {
  return {"COXSWAIN_JOB",
          "COXSWAIN_JOB_UID",
          "COXSWAIN_ROLE",
          "COXSWAIN_INDEX",
          "COXSWAIN_ATTEMPT",
          "COXSWAIN_INCARNATION",
          "COXSWAIN_RESTART_CAUSE",
          "COXSWAIN_WORLD_SIZE",
          "COXSWAIN_SLOTS",
          "COXSWAIN_CONFIG",
          "COXSWAIN_CHECKPOINTS",
          "COXSWAIN_HOSTFILE",
          "COXSWAIN_SERVERS",
          "COXSWAIN_BATCH_ON_RESIZE",
          "COXSWAIN_STARTUP_SECONDS",
          "COXSWAIN_SSH_PORT",
          "COXSWAIN_RANK_PORT",
          "COXSWAIN_PEER_PORT",
          "COXSWAIN_KEY",
          "COXSWAIN_RUN_DIR",
          "COXSWAIN_LOG_FORMAT",
          "COXSWAIN_TERMINAL_COLUMNS"};
}

WorkerEnv from_env(const EnvironmentLookup& lookup) {
  const auto text = [&lookup](const std::string& name) { return lookup(name).value_or(""); };
  WorkerEnv env;
  env.job = text("COXSWAIN_JOB");
  if (env.job.empty()) {
    throw Error(ExitCode::kBadInput,
                "[worker] COXSWAIN_JOB is not set: this command is started by a job");
  }
  env.job_uid = text("COXSWAIN_JOB_UID");
  if (!is_uid(env.job_uid)) {
    refuse("COXSWAIN_JOB_UID", env.job_uid, "must be at most 64 letters, digits and hyphens");
  }
  if (const std::string said = text("COXSWAIN_ROLE"); !said.empty()) {
    const auto role = role_of(said);
    if (!role) refuse("COXSWAIN_ROLE", said, "must be worker or server");
    env.role = *role;
  }
  constexpr int kMaxInt = 2147483647;
  env.index = integer(lookup, "COXSWAIN_INDEX", env.index, 0, kMaxWorldSize - 1);
  env.attempt = integer(lookup, "COXSWAIN_ATTEMPT", env.attempt, 0, kMaxInt);
  env.incarnation = integer(lookup, "COXSWAIN_INCARNATION", 0, 0, kMaxInt);
  env.restart_cause = text("COXSWAIN_RESTART_CAUSE");
  env.world_size = integer(lookup, "COXSWAIN_WORLD_SIZE", env.world_size, 1, kMaxWorldSize);
  env.slots = integer(lookup, "COXSWAIN_SLOTS", env.slots, 1, kMaxSlots);
  env.config = text("COXSWAIN_CONFIG");
  env.checkpoints = text("COXSWAIN_CHECKPOINTS");
  env.hostfile = text("COXSWAIN_HOSTFILE");
  env.servers = servers_from(text("COXSWAIN_SERVERS"));
  const std::string batch = text("COXSWAIN_BATCH_ON_RESIZE");
  if (!batch.empty() && batch != kBatchPerWorker && batch != "keep") {
    refuse("COXSWAIN_BATCH_ON_RESIZE", batch, "must be keep or perWorker");
  }
  env.batch_per_worker = batch == kBatchPerWorker;
  env.startup_seconds =
      integer(lookup, "COXSWAIN_STARTUP_SECONDS", env.startup_seconds, 1, kMaxInt);
  env.ssh_port = integer(lookup, "COXSWAIN_SSH_PORT", env.ssh_port, 1, 65535);
  env.rank_port = integer(lookup, "COXSWAIN_RANK_PORT", env.rank_port, 1, 65535);
  env.peer_port = integer(lookup, "COXSWAIN_PEER_PORT", env.peer_port, 1, 65535);
  env.key = text("COXSWAIN_KEY");
  env.run_dir = text("COXSWAIN_RUN_DIR");
  env.log_format = text("COXSWAIN_LOG_FORMAT");
  if (!env.log_format.empty() && env.log_format != "text" && env.log_format != "json") {
    refuse("COXSWAIN_LOG_FORMAT", env.log_format, "must be text or json");
  }
  env.terminal_columns = integer(lookup, "COXSWAIN_TERMINAL_COLUMNS", 0, 0, kMaxInt);
  return env;
}

bool has_worker_env(const EnvironmentLookup& lookup) { return lookup("COXSWAIN_JOB").has_value(); }

std::optional<std::string> lookup_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::map<std::string, std::string> whole_environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const std::size_t equals = variable.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  return variables;
}

}  // namespace coxswain::contract
