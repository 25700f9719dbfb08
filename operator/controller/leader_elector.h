#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "operator/controller/lease.h"
#include "operator/kube/client.h"

namespace coxswain::controller {

struct LeaderOptions {
  std::string name_space;
  std::string name = "coxswain-operator";
  std::string identity;  // <host name>_<random>
  LeaseTimes times;
};

// Resource. Holds the Lease while it can. It does not fence: that is done by holds(), which the
// client asks before each write, and by the preconditions of each write.
class LeaderElector {
 public:
  // `client` should have a connection of its own, and no may_write of its own.
  LeaderElector(kube::Client& client, LeaderOptions options);

  // Blocks until the lease is ours; false: stopped before.
  bool acquire(std::stop_token stop);
  // Renews until stopped, then releases; or until the renew deadline passes without success: false.
  bool keep(std::stop_token stop);
  // True until renew_deadline after the last success began, by the monotonic clock. Thread-safe.
  bool holds() const;
  std::string leader() const;  // as last seen
};

}  // namespace coxswain::controller
