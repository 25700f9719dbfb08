#include "trainer/ps/client_thread.h"

#include <chrono>
#include <utility>

namespace coxswain::ps {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kTick = std::chrono::seconds(1);

}  // namespace

ClientThread::ClientThread(const net::NetworkOptions& network, const ClientOptions& options,
                           const Plan& plan, const WorkerArrays& arrays)
    : client_(options, plan, arrays),
      network_(network, client_),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

ClientThread::~ClientThread() {
  thread_.request_stop();
  network_.wake();
}

void ClientThread::await_servers() { wait_until(&SyncClient::all_are_there); }

void ClientThread::hand_over(std::int64_t step, std::int64_t update_count) {
  post([=](SyncClient& client) { client.hand_over(step, update_count); });
  wait_until(&SyncClient::has_all);
}

void ClientThread::begin(std::int64_t step, const std::optional<optim::UpdateStep>& terms) {
  post([=](SyncClient& client) { client.begin(step, terms); });
}

void ClientThread::push(const BlockPart& part) {
  post([=](SyncClient& client) { client.push(part); });
}

backend::ControlFloats ClientThread::finish_step() {
  wait_until(&SyncClient::has_all);
  return client_.outcome();  // the thread leaves it alone until the next step
}

void ClientThread::fetch_slots() {
  post([](SyncClient& client) { client.ask_slots(); });
  wait_until(&SyncClient::has_all);
}

void ClientThread::post(std::function<void(SyncClient&)> what) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    posts_.push_back(std::move(what));
    if (posts_.size() > 1) return;  // it has been woken
  }
  network_.wake();
}

void ClientThread::wait_until(bool (SyncClient::*is_so)() const) {
  std::unique_lock lock(mutex_);
  awaited_ = is_so;
  network_.wake();
  changed_.wait(lock, [this] { return awaited_ == nullptr || failure_; });  // tick() has deadlines
  if (failure_) std::rethrow_exception(failure_);
}

void ClientThread::run(const std::stop_token& stop) {
  try {
    client_.use(network_);
    auto next_tick = Clock::now() + kTick;
    while (!stop.stop_requested()) {
      network_.wait(next_tick - Clock::now());
      do take_posts();
      while (network_.poll());
      if (Clock::now() < next_tick) continue;
      next_tick = Clock::now() + kTick;
      client_.tick();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

void ClientThread::take_posts() {
  std::vector<std::function<void(SyncClient&)>> posts;
  {
    const std::lock_guard lock(mutex_);
    posts.swap(posts_);
  }
  for (const auto& post : posts) post(client_);
  const std::lock_guard lock(mutex_);
  if (!posts_.empty() || awaited_ == nullptr || !(client_.*awaited_)()) return;
  awaited_ = nullptr;
  changed_.notify_all();
}

}  // namespace coxswain::ps
