#include "trainer/ps/client_runner.h"

#include <utility>

namespace coxswain::ps {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kTick = std::chrono::seconds(1);

}  // namespace

ClientRunner::ClientRunner(const net::NetworkOptions& network, Client& client)
    : client_(client),
      network_(network, client_),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

ClientRunner::~ClientRunner() {
  thread_.request_stop();
  network_.wake();
}

void ClientRunner::post(std::function<void()> what) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    posts_.push_back(std::move(what));
    if (posts_.size() > 1) return;  // it has been woken
  }
  network_.wake();
}

void ClientRunner::wait_until(std::function<bool()> is_so) {
  while (!wait_for(is_so, std::chrono::hours(1))) continue;  // tick() has deadlines
}

bool ClientRunner::wait_for(std::function<bool()> is_so, std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  awaited_ = std::move(is_so);
  network_.wake();
  changed_.wait_for(lock, limit, [this] { return !awaited_ || failure_; });
  if (failure_) std::rethrow_exception(failure_);
  return !std::exchange(awaited_, nullptr);
}

void ClientRunner::run(const std::stop_token& stop) {
  try {
    client_.use(network_);
    auto next_tick = Clock::now() + kTick;
    while (!stop.stop_requested()) {
      network_.wait(next_tick - Clock::now());
      do take_posts();
      while (network_.poll() && Clock::now() < next_tick);
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

void ClientRunner::take_posts() {
  std::vector<std::function<void()>> posts;
  {
    const std::lock_guard lock(mutex_);
    posts.swap(posts_);
  }
  for (const auto& post : posts) post();
  const std::lock_guard lock(mutex_);
  if (!posts_.empty() || !awaited_ || !awaited_()) return;
  awaited_ = nullptr;
  changed_.notify_all();
}

}  // namespace coxswain::ps
