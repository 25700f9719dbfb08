#include "trainer/contract/worker/run_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/constants.h"

namespace coxswain::contract {

namespace {

constexpr std::size_t kMaxPidFileBytes = 64 * 1024;
constexpr std::size_t kMaxEnvironmentBytes = 4 * 1024 * 1024;  // twice what exec() takes
constexpr std::size_t kMaxPortBytes = 16;
constexpr const char* kEnvironmentFile = "env";

[[noreturn]] void fail(const std::filesystem::path& file) {
  throw Error(ExitCode::kVolume,
              fmt::format("[run] can't write {}: {}", file.string(), std::strerror(errno)));
}

void write_to(const std::filesystem::path& file, int flags, std::string_view text) {
  std::error_code ignored;  // what is wrong shows at open()
  std::filesystem::create_directories(file.parent_path(), ignored);
  const FileDescriptor fd(open(file.c_str(), flags | O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (fd.get() < 0) fail(file);
  if (write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail(file);
}

}  // namespace

std::filesystem::path worker_directory(const WorkerEnv& env) {
  if (env.run_dir.empty()) return kRunDirectory;
  return env.run_dir / std::to_string(env.attempt) /
         fmt::format("{}-{}", to_text(env.role), env.index);
}

std::filesystem::path pid_file(const std::filesystem::path& worker_directory) {
  return worker_directory / "pid";
}

std::filesystem::path rank_file(const std::filesystem::path& worker_directory, int rank) {
  return worker_directory / fmt::format("rank-{}.json", rank);
}

std::filesystem::path output_file(const std::filesystem::path& worker_directory, int rank) {
  return worker_directory / fmt::format("rank-{}.log", rank);
}

std::filesystem::path command_message_file(const std::filesystem::path& worker_directory,
                                           int rank) {
  return worker_directory / fmt::format("command-{}.json", rank);
}

std::filesystem::path termination_file(const WorkerEnv& env) {
  if (env.run_dir.empty()) return kTerminationMessagePath;
  return worker_directory(env) / "termination.json";
}

std::filesystem::path endpoint_file(const std::filesystem::path& worker_directory) {
  return worker_directory / "endpoint";
}

std::optional<std::uint16_t> read_endpoint(const std::filesystem::path& worker_directory) {
  const auto text = read_small_file(endpoint_file(worker_directory), kMaxPortBytes);
  std::uint16_t port = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), port);
  return error == std::errc() && port > 0 ? std::optional(port) : std::nullopt;
}

std::filesystem::path host_file(const std::filesystem::path& worker_directory) {
  return worker_directory / "host";
}

std::vector<AnnouncedRank> read_announced(const std::filesystem::path& worker_directory) {
  std::istringstream text(
      read_small_file(pid_file(worker_directory), kMaxPidFileBytes).value_or(""));
  std::vector<AnnouncedRank> ranks;
  for (AnnouncedRank next; text >> next.pid >> next.rank;) {
    if (next.pid > 1) ranks.push_back(next);  // 0, 1 and negative numbers mean others to kill()
  }
  return ranks;
}

void announce_this_process(const std::filesystem::path& worker_directory, int rank) {
  // One write() of a short line at the end of the file: ranks of one worker don't mix theirs.
  write_to(pid_file(worker_directory), O_APPEND, fmt::format("{} {}\n", getpid(), rank));
}

// As in /proc/PID/environ: a value may have any character but NUL.
void save_environment(const std::filesystem::path& worker_directory,
                      const std::map<std::string, std::string>& variables) {
  std::string text;
  for (const auto& [name, value] : variables) text += name + "=" + value + '\0';
  write_whole_file(worker_directory / kEnvironmentFile, text);
}

std::map<std::string, std::string> load_environment(const std::filesystem::path& worker_directory) {
  const auto file = worker_directory / kEnvironmentFile;
  const auto text = read_small_file(file, kMaxEnvironmentBytes);
  if (!text)
    throw Error(
        ExitCode::kBadInput,
        fmt::format("[run] can't read {}: this pod's worker has not started", file.string()));
  std::map<std::string, std::string> variables;
  std::istringstream in(*text);
  for (std::string entry; std::getline(in, entry, '\0');) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos)
      variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return variables;
}

std::optional<std::string> read_small_file(const std::filesystem::path& file,
                                           std::size_t max_bytes) {
  std::ifstream in(file, std::ios::binary);
  std::string text(max_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (!in.is_open() || in.bad() || text.size() > max_bytes) return std::nullopt;
  return text;
}

void write_whole_file(const std::filesystem::path& file, std::string_view text) {
  // A termination log of a pod is a mounted file, which can't be replaced.
  if (file == kTerminationMessagePath) return write_to(file, O_TRUNC, text);
  const std::filesystem::path temporary = fmt::format("{}.{}", file.string(), getpid());
  write_to(temporary, O_TRUNC, text);
  if (rename(temporary.c_str(), file.c_str()) != 0) fail(file);
}

}  // namespace coxswain::contract
