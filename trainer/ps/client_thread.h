#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "trainer/ps/sync_client.h"

namespace coxswain::ps {

// Resource. A SyncClient on a thread of its own, which alone touches the connections: what is
// pushed leaves while the caller computes. For one caller; every call throws what the thread met:
// Error(65, 69, 71).
class ClientThread {
 public:
  ClientThread(const net::NetworkOptions& network, const ClientOptions& options, const Plan& plan,
               const WorkerArrays& arrays);
  ~ClientThread();
  ClientThread(const ClientThread&) = delete;
  ClientThread& operator=(const ClientThread&) = delete;

  void await_servers();
  void hand_over(std::int64_t step, std::int64_t update_count);  // until they have it
  void begin(std::int64_t step, const std::optional<optim::UpdateStep>& terms);
  void push(const BlockPart& part);
  backend::ControlFloats finish_step();  // until the weights are there
  void fetch_slots();                    // until they are there

 private:
  void post(std::function<void(SyncClient&)> what);
  void wait_until(bool (SyncClient::*is_so)() const);
  void run(const std::stop_token& stop);
  void take_posts();

  SyncClient client_;     // the thread's
  net::Network network_;  // the thread's, but for wake()

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void(SyncClient&)>> posts_;  // guarded by mutex_
  bool (SyncClient::*awaited_)() const = nullptr;        // guarded by mutex_; nullptr: nothing
  std::exception_ptr failure_;                           // guarded by mutex_
  std::jthread thread_;                                  // last: it uses what stands above
};

}  // namespace coxswain::ps
