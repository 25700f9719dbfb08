#include <fmt/format.h>

#include "trainer/comm/progress_thread.h"

namespace coxswain::comm {

namespace {
constexpr std::size_t kQueued = 64;
}

void Mailbox::raise(const char* doing) const {
  if (!failure_) return;
  if (failure_->lost) throw PeerLost(failure_->lost->rank, failure_->lost->seconds, doing);
  throw Error(failure_->code, failure_->what);
}

void Mailbox::await_open(std::chrono::nanoseconds deadline) {
  std::unique_lock lock(mutex_);
  to_caller_.wait_for(lock, deadline, [&] { return opened_ || failure_; });
  raise("at start");
  if (opened_) return;
  throw Error(ExitCode::kPeersMissing,
              fmt::format("[comm] the ranks did not find each other within {:.0f} s: at least one "
                          "did not start or can't be reached",
                          std::chrono::duration<double>(deadline).count()));
}

Ticket Mailbox::submit(Request request, const char* doing) {
  std::unique_lock lock(mutex_);
  to_caller_.wait(lock, [&] { return queue_.size() < kQueued || failure_; });
  raise(doing);
  const Ticket ticket = ++last_ticket_;
  open_tickets_.insert(ticket);
  queue_.push_back({ticket, std::move(request)});
  to_thread_.notify_one();
  return ticket;
}

void Mailbox::await(Ticket ticket, const char* doing) {
  std::unique_lock lock(mutex_);
  caller_waits_ = true;
  to_caller_.wait(lock, [&] { return !open_tickets_.contains(ticket) || failure_; });
  caller_waits_ = false;
  if (open_tickets_.contains(ticket)) raise(doing);
}

bool Mailbox::await_exit(std::chrono::nanoseconds deadline) {
  std::unique_lock lock(mutex_);
  return to_caller_.wait_for(lock, deadline, [&] { return exited_; });
}

void Mailbox::opened(int rank, int size) {
  const std::lock_guard lock(mutex_);
  rank_ = rank;
  size_ = size;
  opened_ = true;
  to_caller_.notify_all();
}

std::deque<Mailbox::Asked> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  std::deque<Asked> taken;
  taken.swap(queue_);
  if (!taken.empty()) to_caller_.notify_all();
  return taken;
}

void Mailbox::await_request(std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  to_thread_.wait_for(lock, limit, [&] { return !queue_.empty(); });
}

void Mailbox::complete(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  open_tickets_.erase(ticket);
  to_caller_.notify_all();
}

void Mailbox::lost(const Liveness::Silent& peer) {
  const std::lock_guard lock(mutex_);
  failure_ = Failure{.lost = peer, .code = ExitCode::kPeerLost, .what = {}};
  to_caller_.notify_all();
}

void Mailbox::broken(ExitCode code, const std::string& what) {
  const std::lock_guard lock(mutex_);
  failure_ = Failure{.lost = std::nullopt, .code = code, .what = what};
  to_caller_.notify_all();
}

void Mailbox::exited() {
  const std::lock_guard lock(mutex_);
  exited_ = true;
  to_caller_.notify_all();
}

}  // namespace coxswain::comm
