#include "operator/kube/exchange.h"

#include <fmt/format.h>

#include <utility>

namespace coxswain::kube {

void Exchange::begin(int status, std::optional<std::chrono::seconds> retry_after) {
  const std::lock_guard lock(mutex_);
  response_.status = status;
  response_.retry_after = retry_after;
  has_begun_ = true;
  changed_.notify_all();
}

Exchange::Wanted Exchange::add(std::string_view bytes, std::function<void()> resume) {
  const std::lock_guard lock(mutex_);
  if (has_left_ || has_ended_) return Wanted::kNothing;
  if (response_.body.size() + bytes.size() > kMaxBodyBytes) {
    problem_ = fmt::format("the answer is over {} MiB", kMaxBodyBytes >> 20);
    has_ended_ = is_too_long_ = true;
    changed_.notify_all();
    return Wanted::kNothing;
  }
  response_.body.append(bytes);
  if (!is_streamed_) return Wanted::kMore;
  changed_.notify_all();
  if (response_.body.size() < kMaxWaitingBytes) return Wanted::kMore;
  resume_ = std::move(resume);
  return Wanted::kLater;
}

void Exchange::end(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  if (has_ended_) return;
  has_ended_ = true;
  problem_ = problem;
  changed_.notify_all();
}

Response Exchange::broken_off(const std::string& problem) const {
  return {.status = 0, .retry_after = {}, .body = problem, .is_too_long = is_too_long_};
}

Response Exchange::wait(std::chrono::milliseconds time, std::stop_token stop) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, stop, time, [this] { return has_ended_; }))
    return broken_off(stop.stop_requested()
                          ? "given up"
                          : fmt::format("no {} within {} ms",
                                        has_begun_ ? "complete answer" : "answer", time.count()));
  if (!problem_.empty()) return broken_off(problem_);
  return std::move(response_);
}

Response Exchange::stream(std::chrono::milliseconds idle_time, std::stop_token stop,
                          const std::function<bool(std::string_view)>& on_data) {
  std::unique_lock lock(mutex_);
  is_streamed_ = true;
  const auto is_success = [this] { return response_.status >= 200 && response_.status < 300; };
  while (true) {
    const bool in_time = changed_.wait_for(lock, stop, idle_time, [&] {
      return has_ended_ || (has_begun_ && is_success() && !response_.body.empty());
    });
    if (stop.stop_requested()) return {response_.status, response_.retry_after, {}};
    if (!in_time) return broken_off(fmt::format("silent for {} ms", idle_time.count()));
    if (has_begun_ && !is_success() && problem_.empty()) return std::move(response_);
    const std::string piece = std::exchange(response_.body, {});
    const auto resume = std::exchange(resume_, {});
    if (piece.empty())
      return problem_.empty() ? Response{response_.status, response_.retry_after, {}}
                              : broken_off(problem_);
    lock.unlock();
    if (resume) resume();
    if (!on_data(piece)) return {response_.status, response_.retry_after, {}};
    lock.lock();
  }
}

bool Exchange::leave() {
  std::function<void()> resume;
  bool is_complete = false;
  {
    const std::lock_guard lock(mutex_);
    has_left_ = true;
    is_complete = has_ended_ && !is_too_long_;
    resume = std::exchange(resume_, {});
  }
  if (resume) resume();  // so that the library sees that nothing is wanted
  return is_complete;
}

}  // namespace coxswain::kube
