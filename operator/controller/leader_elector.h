#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "operator/controller/lease.h"
#include "operator/kube/client.h"

namespace coxswain::controller {

// What an elector takes from the world; tests pass their own.
struct LeaderClock {
  std::function<Monotonic()> now;  // CLOCK_BOOTTIME
  std::function<WallTime()> wall;  // what is written into the record, and never read back
  std::function<void(Monotonic, std::stop_token)> sleep;
  std::function<double()> random;  // [0, 1)
};
LeaderClock real_leader_clock();

struct LeaderOptions {
  std::string name_space;
  std::string name = "coxswain-operator";
  std::string identity;  // <host name>_<random>
  LeaseTimes times;
  LeaderClock clock = real_leader_clock();
  // What the API server said when it could not be asked; not that another leads.
  std::function<void(const kube::ApiError&)> on_error = [](const kube::ApiError&) {};
};

// Resource. Holds the Lease while it can. It does not fence: that is done by holds(), which the
// client asks before each write, and by the preconditions of each write.
class LeaderElector {
 public:
  // `client` should have a connection of its own, no may_write of its own, one try, and
  // left_of_try() as its deadline: a call that takes or is repeated for long keeps the elector from
  // trying again in time. Must outlive this.
  LeaderElector(kube::Client& client, LeaderOptions options);

  // Blocks until the lease is ours; false: stopped before.
  bool acquire(std::stop_token stop);
  // Renews until stopped, then releases: true. False: the renew deadline passed without success, or
  // another holds the lease. Ask it to stop only after all work has ended.
  bool keep(std::stop_token stop);
  // True until renew_deadline after the last success began, by the monotonic clock. Thread-safe.
  bool holds() const;
  std::string leader() const;                     // as last seen; empty: nobody. Thread-safe.
  std::chrono::milliseconds left_of_try() const;  // for the calls of the one under way

 private:
  // One step of the machine: reads the record, and writes ours where next_move() says so. True if
  // the lease is ours now.
  bool try_once();
  std::optional<kube::Json> look();
  void see(const kube::Json& object);
  bool write(const LeaseRecord& record, const kube::Json& seen);
  void release();
  void rest(std::stop_token stop);

  kube::Client& client_;
  const LeaderOptions options_;
  Monotonic try_ends_{0};  // both of the thread that runs acquire() and keep()
  LeaseView view_;
  std::atomic<Monotonic::rep> holds_until_{0};
  mutable std::mutex mutex_;
  std::string leader_;  // guarded by mutex_
};

}  // namespace coxswain::controller
