#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "trainer/ps/client.h"

namespace coxswain::ps {

// Resource. A client on a thread of its own, which alone touches it and its connections: what is
// posted leaves while the caller computes. For one caller; every call throws what the thread met:
// Error(65, 69, 71).
class ClientRunner {
 public:
  // `client` outlives it.
  ClientRunner(const net::NetworkOptions& network, Client& client);
  ~ClientRunner();
  ClientRunner(const ClientRunner&) = delete;
  ClientRunner& operator=(const ClientRunner&) = delete;

  // In order, on the thread.
  void post(std::function<void()> what);
  // Until it is so, as asked on the thread after all posts, and not asked again; what it leaves
  // behind is the caller's to read.
  void wait_until(std::function<bool()> is_so);
  // False: not yet.
  bool wait_for(std::function<bool()> is_so, std::chrono::nanoseconds limit);

 private:
  void run(const std::stop_token& stop);
  void take_posts();

  Client& client_;        // the thread's
  net::Network network_;  // the thread's, but for wake()

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> posts_;  // guarded by mutex_
  std::function<bool()> awaited_;             // guarded by mutex_; null: nothing
  std::exception_ptr failure_;                // guarded by mutex_
  std::jthread thread_;                       // last: it uses what stands above
};

}  // namespace coxswain::ps
