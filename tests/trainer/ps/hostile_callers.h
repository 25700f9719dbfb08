#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/net/network.h"
#include "trainer/ps/shard.h"

namespace coxswain::ps {

// Value. A server that is called, and those whom it would let in.
struct HostileTarget {
  net::Address address;
  net::Hello leader;  // worker 0
  net::Hello worker;  // another
  net::Hello server;  // another
};

// Resource. Calls by those who do not belong to the job, or who do and have gone mad, of all kinds
// in turn and many at once, on threads of its own.
class HostileCallers {
 public:
  // `step`: that is under way.
  HostileCallers(std::vector<HostileTarget> targets, const std::string& secret, const Plan& plan,
                 const std::atomic<std::int64_t>& step, int calls, unsigned seed);
  ~HostileCallers();
  HostileCallers(const HostileCallers&) = delete;
  HostileCallers& operator=(const HostileCallers&) = delete;

  bool are_done() const;
  int count() const;  // of those that were done
  // Once they are done. Of whom a server let in that it should not have, or did not send away.
  std::vector<std::string> complaints() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace coxswain::ps
