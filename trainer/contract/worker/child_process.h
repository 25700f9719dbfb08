#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <vector>

// Processes that never outlive the one that started them. For single-threaded supervisors.
namespace coxswain::contract {

// Resource: an open descriptor, closed when it goes; -1: none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { close(); }
  int get() const { return fd_; }
  void close();

 private:
  int fd_ = -1;
};

// Resource: a pipe whose ends no child inherits unless it is given one; reading never waits.
struct Pipe {
  FileDescriptor out;
  FileDescriptor in;
};

Pipe make_pipe();  // throws Error(70)

// Value. How a process ended. `code` is what a shell says: the exit code, or 128 + signal.
struct ProcessEnd {
  int code = 0;
  int signal = 0;  // 0: it exited by itself
  bool operator==(const ProcessEnd&) const = default;
};

// Value. What to start and how it hangs on its parent.
struct ProcessOptions {
  std::vector<std::string> command;                // [0] is looked for in PATH
  std::map<std::string, std::string> environment;  // replaces or adds to the parent's
  int death_signal = 9;  // sent to it when the thread that started it ends, however it ends
  bool listens = false;  // SIGTERM, SIGINT and SIGUSR1 wait until it takes them (SignalQueue)
  int stdin_fd = -1;     // -1: /dev/null
  int stdout_fd = -1;    // -1: the parent's
  int stderr_fd = -1;    // -1: the parent's
};

// Resource: a child in a process group of its own, with no signal blocked unless it listens.
//
// The destructor kills what is left of its group and collects it.
class ChildProcess {
 public:
  // Throws Error(kBadInput) naming the program when it can't be executed.
  explicit ChildProcess(const ProcessOptions& options);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  int descriptor() const { return pidfd_.get(); }  // readable in poll() once it ended

  void signal(int number);        // to it alone; nothing happens once it ended
  void signal_group(int number);  // to it and what it started
  // Once it ended: collects it and kills what is left of its group. The same answer from then on.
  std::optional<ProcessEnd> end();

 private:
  pid_t pid_ = -1;
  FileDescriptor pidfd_;
  std::optional<ProcessEnd> end_;
};

// Somebody else's process: a descriptor that becomes readable when it ends, or none if it is gone
// already. Signals sent through it never reach another process that got the same number later.
FileDescriptor watch_process(pid_t pid);
void signal_process(const FileDescriptor& process, int number);
bool has_ended(const FileDescriptor& process);
bool has_ended(const ChildProcess& process);

// Resource: the listed signals arrive here instead of interrupting, until it goes. SIGPIPE is
// ignored meanwhile, so that a closed pipe is an error of write().
class SignalQueue {
 public:
  explicit SignalQueue(const std::vector<int>& signals);
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;
  ~SignalQueue();

  int descriptor() const { return fd_.get(); }
  std::optional<int> next();  // the oldest one waiting

 private:
  FileDescriptor fd_;
  sigset_t blocked_;
  sigset_t before_;
  void (*pipe_handler_before_)(int);
};

// True of a signal that whoever started this process wants it to ignore, as nohup does SIGHUP. To
// wait for one takes it all the same.
bool is_ignored(int signal);

// What a descendant leaves behind becomes a child of this process, as it is of a pod's first.
void adopt_orphans();
// Collects those that have ended. Children of this process's own are left to their ChildProcess:
// `own` holds their numbers. True while any child, own or not, is left.
bool collect_orphans(const std::vector<pid_t>& own);

// Waits until one of the descriptors (-1: skipped) is readable, at most until `timeout`.
void wait_readable(const std::vector<int>& descriptors, std::chrono::milliseconds timeout);

}  // namespace coxswain::contract
