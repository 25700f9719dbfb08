#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <variant>

#include "trainer/comm/exchange.h"
#include "trainer/comm/liveness.h"
#include "trainer/comm/wired_communicator.h"

namespace coxswain::comm {

// What the caller asks of the communication thread.
struct SumRequest {
  std::shared_ptr<const ReductionPlan> plan;
  HostReduction reduction;
};
struct BroadcastRequest {
  std::span<std::byte> bytes;
  int root = 0;
};
struct BarrierRequest {};
struct CloseRequest {};  // once all before it is done
using Request = std::variant<SumRequest, BroadcastRequest, BarrierRequest, CloseRequest>;

// Between the caller and the communication thread: a bounded queue there, tickets and failures
// back.
class Mailbox {
 public:
  // The caller's side. Each throws the failure of the communication thread, PeerLost above all;
  // `doing` says in its message during what.
  void await_open(std::chrono::nanoseconds deadline);
  Ticket submit(Request request, const char* doing);
  void await(Ticket ticket, const char* doing);
  // False if the thread does not leave in time.
  bool await_exit(std::chrono::nanoseconds deadline);
  int rank() const { return rank_; }
  int size() const { return size_; }

  // The communication thread's side.
  struct Asked {
    Ticket ticket = 0;
    Request request;
  };
  void opened(int rank, int size);
  std::deque<Asked> take();  // all that is queued
  // Sleeps until something is asked, at most for `limit`.
  void await_request(std::chrono::nanoseconds limit);
  bool caller_waits() const { return caller_waits_; }  // else it computes beside this thread
  void complete(Ticket ticket);
  void lost(const Liveness::Silent& peer);
  void broken(ExitCode code, const std::string& what);
  void exited();

 private:
  struct Failure {
    std::optional<Liveness::Silent> lost;
    ExitCode code = ExitCode::kInternal;
    std::string what;
  };
  void raise(const char* doing) const;

  std::atomic<bool> caller_waits_ = false;
  int rank_ = 0;  // set before opened_, then constant
  int size_ = 0;

  std::mutex mutex_;  // guards all below
  std::condition_variable to_caller_;
  std::condition_variable to_thread_;
  std::deque<Asked> queue_;
  std::set<Ticket> open_tickets_;
  Ticket last_ticket_ = 0;
  bool opened_ = false;
  bool exited_ = false;
  std::optional<Failure> failure_;
};

// The communication thread from open to close. Returns when closed, failed or asked to stop.
void run_communication(std::stop_token stop, const OpenWire& open, const WiredOptions& options,
                       Mailbox& mailbox);

}  // namespace coxswain::comm
