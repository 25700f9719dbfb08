#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/cluster/parallel.h"
#include "trainer/contract/worker/constants.h"
#include "trainer/contract/worker/progress.h"

namespace coxswain::cluster {

struct PollerOptions {
  std::chrono::seconds interval{10};  // of one job, after a failure twice as long, and so on
  std::chrono::seconds longest{300};  // but no longer
  std::size_t most_per_second = 20;   // of all jobs: bounds the status writes that follow
  // The endpoint's answer; tests have their own.
  std::function<std::optional<std::string>(const std::string& address, std::uint16_t port)> get;
  // The job with this key has something new to tell.
  std::function<void(const std::string& key)> news = [](const std::string&) {};
};

// GET http://<address>:<port>/progress, 1 s, 4 KiB.
std::optional<std::string> get_progress(const std::string& address, std::uint16_t port);

// Resource. Asks rank 0 of running jobs how far they are. Best effort: an endpoint that doesn't
// answer is asked less and less. Thread-safe.
class ProgressPoller {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ProgressPoller(PollerOptions options);

  // What the job told last in this attempt. From now on it is asked at `address`; no more if that
  // is empty.
  contract::ProgressDocument ask(const std::string& uid, const std::string& key, int attempt,
                                 const std::string& address,
                                 std::uint16_t port = contract::kRankPort);
  void forget(const std::string& uid);

  void run(std::stop_token stop);  // one round a second, until asked to stop
  void poll_due(Clock::time_point now);

 private:
  struct Job {
    std::string key;
    int attempt = -1;
    std::string address;
    std::uint16_t port = contract::kRankPort;  // of this attempt
    Clock::time_point due;
    std::chrono::seconds interval{0};
    contract::ProgressDocument told;
  };

  void poll(const std::string& uid, const std::string& address, std::uint16_t port,
            Clock::time_point now);

  PollerOptions options_;
  Parallel parallel_;
  std::mutex mutex_;
  std::map<std::string, Job> jobs_;  // by uid; guarded by mutex_
};

}  // namespace coxswain::cluster
