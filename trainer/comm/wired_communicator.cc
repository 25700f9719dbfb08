#include "trainer/comm/wired_communicator.h"

#include <fmt/format.h>

#include <thread>

#include "trainer/comm/progress_thread.h"

namespace coxswain::comm {

namespace {

class WiredCommunicator final : public Communicator {
 public:
  WiredCommunicator(OpenWire open, WiredOptions options)
      : peer_deadline_(options.peer_deadline), mailbox_(std::make_shared<Mailbox>()) {
    const auto startup_deadline = options.startup_deadline;
    // The thread shares the mailbox: it may have to be left behind inside a call that hangs.
    thread_ = std::jthread([open = std::move(open), options = std::move(options),
                            mailbox = mailbox_](std::stop_token stop) {
      run_communication(stop, open, options, *mailbox);
    });
    try {
      mailbox_->await_open(startup_deadline);
    } catch (...) {
      leave();
      throw;
    }
  }

  ~WiredCommunicator() override { leave(); }

  int rank() const override { return mailbox_->rank(); }
  int size() const override { return mailbox_->size(); }

  bool reaches(tensor::Place place) const override { return place == tensor::Place::kHost; }
  bool fixed_order() const override { return true; }

  Ticket all_reduce_sum(const ReductionPlan& plan, Reduction reduction) override {
    check_reduction(plan, reduction, rank(), size());
    if (!plan_ || *plan_ != plan) plan_ = std::make_shared<const ReductionPlan>(plan);
    return mailbox_->submit(SumRequest{plan_, on_host(reduction)}, "in an all-reduce");
  }

  void wait(Ticket ticket) override { mailbox_->await(ticket, "in an all-reduce"); }

  void broadcast(std::span<std::byte> bytes, int root) override {
    constexpr const char* kDoing = "in a broadcast";
    mailbox_->await(mailbox_->submit(BroadcastRequest{bytes, root}, kDoing), kDoing);
  }

  void barrier() override {
    constexpr const char* kDoing = "in a barrier";
    mailbox_->await(mailbox_->submit(BarrierRequest{}, kDoing), kDoing);
  }

  void finish() override {
    barrier();
    const Ticket closed = mailbox_->submit(CloseRequest{}, "at the end");
    if (!mailbox_->await_exit(peer_deadline_)) {
      throw Error(
          ExitCode::kPeerLost,
          fmt::format("[comm] closing did not end within {:.0f} s: a rank went away meanwhile",
                      std::chrono::duration<double>(peer_deadline_).count()));
    }
    mailbox_->await(closed, "at the end");
  }

 private:
  void leave() {
    thread_.request_stop();
    if (mailbox_->await_exit(kLeaveDeadline)) {
      thread_.join();
    } else {
      thread_.detach();
    }
  }

  static constexpr auto kLeaveDeadline = std::chrono::seconds(1);

  std::chrono::nanoseconds peer_deadline_;
  std::shared_ptr<Mailbox> mailbox_;
  std::shared_ptr<const ReductionPlan> plan_;  // of the last reduction, and as a rule of all
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<Communicator> make_wired_communicator(OpenWire open, WiredOptions options) {
  return std::make_unique<WiredCommunicator>(std::move(open), std::move(options));
}

}  // namespace coxswain::comm
