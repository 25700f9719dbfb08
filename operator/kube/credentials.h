#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "operator/kube/config.h"
#include "operator/kube/watched_file.h"

namespace coxswain::kube {

// Resource. Who we are to the API server, as it is now: files are read anew at most every 10 s, an
// exec plug-in runs again before its answer expires. What is no good leaves what was good before,
// and `warn` is told. Thread-safe; whoever finds it due renews it, the others go on with the old.
class Credentials {
 public:
  using Clock = std::function<std::chrono::system_clock::time_point()>;
  static constexpr std::chrono::seconds kAhead{30};  // of the end of what a plug-in gave
  static constexpr std::chrono::seconds kPause{10};  // between two runs of it

  Credentials(const Config& config, std::function<void(const std::string&)> warn,
              Clock clock = std::chrono::system_clock::now,
              const WatchedFile::Clock& clock_of_files = std::chrono::steady_clock::now);

  Credential now();

  // The server answered 401 to `used`. True: there is another one now.
  bool renew(const Credential& used);

 private:
  void read_files();
  void run_plugin(const std::function<bool()>& is_due);  // asked under the lock
  static std::optional<std::string> problem_of_pair(const Credential& credential);

  const std::optional<ExecPlugin> plugin_;
  const std::function<void(const std::string&)> warn_;
  const Clock clock_;
  WatchedFile token_;
  WatchedFile certificate_;
  WatchedFile key_;
  std::mutex mutex_;
  // Guarded by mutex_:
  Credential credential_;
  Credential refused_pair_;  // of files that don't belong together, as was told
  std::optional<std::chrono::system_clock::time_point> expiry_;
  std::optional<std::chrono::system_clock::time_point> last_run_;
  bool is_running_ = false;
};

}  // namespace coxswain::kube
