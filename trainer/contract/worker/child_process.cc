#include "trainer/contract/worker/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "trainer/contract/error.h"

extern "C" {  // the header of glibc 2.36 forgets to say so
#include <sys/pidfd.h>
}

namespace coxswain::contract {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ExitCode::kInternal, fmt::format("[process] {}: {}", what, std::strerror(errno)));
}

// The whole environment of a child, made before fork().
std::vector<std::string> merged_environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) merged.push_back(text);
  }
  for (const auto& [name, value] : changes) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

void replace_descriptor(int from, int to) {
  if (from >= 0 && dup2(from, to) < 0) _exit(126);
}

// In the child, between fork() and exec(): only calls that are safe there.
[[noreturn]] void become(const ProcessOptions& options, char* const* arguments,
                         char* const* environment, pid_t parent, int error_pipe) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, options.death_signal);
  if (getppid() != parent) _exit(126);  // the parent ended before the line above
  sigset_t blocked;
  sigemptyset(&blocked);
  if (options.listens) {
    for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&blocked, number);
  }
  sigprocmask(SIG_SETMASK, &blocked, nullptr);
  for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  replace_descriptor(options.stdin_fd >= 0 ? options.stdin_fd : nothing, STDIN_FILENO);
  replace_descriptor(options.stdout_fd, STDOUT_FILENO);
  replace_descriptor(options.stderr_fd, STDERR_FILENO);
  execvpe(arguments[0], arguments, environment);
  const int error = errno;
  // Nobody left to tell if this fails.
  [[maybe_unused]] const ssize_t written = write(error_pipe, &error, sizeof error);
  _exit(127);
}

}  // namespace

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void FileDescriptor::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

ChildProcess::ChildProcess(const ProcessOptions& options) {
  const auto environment = merged_environment(options.environment);
  const auto argument_pointers = pointers(options.command);
  const auto environment_pointers = pointers(environment);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  const FileDescriptor error_out(ends[0]);
  FileDescriptor error_in(ends[1]);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) {
    become(options, argument_pointers.data(), environment_pointers.data(), parent, error_in.get());
  }
  setpgid(pid_, pid_);  // as in the child: whoever comes first
  pidfd_ = FileDescriptor(pidfd_open(pid_, 0));
  error_in.close();
  int error = 0;
  if (read(error_out.get(), &error, sizeof error) != sizeof error) return;  // closed by exec()
  waitpid(pid_, nullptr, 0);
  throw Error(ExitCode::kBadInput, fmt::format("[process] can't start {}: {}",
                                               options.command.front(), std::strerror(error)));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)), end_(other.end_) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || end_) return;
  signal_group(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::signal(int number) {
  if (!end_) kill(pid_, number);  // not collected yet, so the number is still its own
}

void ChildProcess::signal_group(int number) {
  if (!end_) kill(-pid_, number);
}

std::optional<ProcessEnd> ChildProcess::end() {
  if (end_) return end_;
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  // What it left behind goes before its number, which names the group, can be given to another.
  if (info.si_code != CLD_EXITED) {
    end_ = ProcessEnd{.code = 128 + info.si_status, .signal = info.si_status};
  } else {
    end_ = ProcessEnd{.code = info.si_status, .signal = 0};
  }
  signal_group(SIGKILL);
  waitpid(pid_, nullptr, 0);
  return end_;
}

FileDescriptor watch_process(pid_t pid) { return FileDescriptor(pidfd_open(pid, 0)); }

void signal_process(const FileDescriptor& process, int number) {
  if (process.get() >= 0) pidfd_send_signal(process.get(), number, nullptr, 0);
}

namespace {

bool is_readable(int fd) {
  pollfd watched{.fd = fd, .events = POLLIN, .revents = 0};
  return fd < 0 || poll(&watched, 1, 0) == 1;
}

}  // namespace

bool has_ended(const FileDescriptor& process) { return is_readable(process.get()); }

bool has_ended(const ChildProcess& process) { return is_readable(process.descriptor()); }

SignalQueue::SignalQueue(const std::vector<int>& signals) {
  sigemptyset(&blocked_);
  for (const int number : signals) sigaddset(&blocked_, number);
  if (sigprocmask(SIG_BLOCK, &blocked_, &before_) != 0) fail("sigprocmask");
  fd_ = FileDescriptor(signalfd(-1, &blocked_, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd_.get() < 0) fail("signalfd");
  pipe_handler_before_ = std::signal(SIGPIPE, SIG_IGN);
}

SignalQueue::~SignalQueue() {
  std::signal(SIGPIPE, pipe_handler_before_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalQueue::next() {
  signalfd_siginfo info{};
  if (read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

bool is_ignored(int signal) {
  struct sigaction now{};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

bool collect_orphans(const std::vector<pid_t>& own) {
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return false;
    // One of ours that has ended hides those after it until it is collected.
    if (info.si_pid == 0 || std::ranges::find(own, info.si_pid) != own.end()) return true;
    waitpid(info.si_pid, nullptr, 0);
  }
}

void wait_readable(const std::vector<int>& descriptors, std::chrono::milliseconds timeout) {
  std::vector<pollfd> watched;
  for (const int fd : descriptors) watched.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  const auto limited = std::clamp<std::int64_t>(timeout.count(), 0, 1 << 30);
  if (poll(watched.data(), watched.size(), static_cast<int>(limited)) < 0 && errno != EINTR) {
    fail("poll");
  }
}

}  // namespace coxswain::contract
