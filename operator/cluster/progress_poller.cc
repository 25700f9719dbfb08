#include "operator/cluster/progress_poller.h"

#include <algorithm>
#include <condition_variable>
#include <utility>

#include "trainer/contract/worker/http_endpoint.h"

namespace coxswain::cluster {

namespace {

constexpr int kHelpers = 3;

}  // namespace

std::optional<std::string> get_progress(const std::string& address, std::uint16_t port) {
  return contract::http_get(address, port, "/progress", std::chrono::seconds(1),
                            contract::kMaxProgressBytes);
}

ProgressPoller::ProgressPoller(PollerOptions options)
    : options_(std::move(options)), parallel_(kHelpers) {}

contract::ProgressDocument ProgressPoller::ask(const std::string& uid, const std::string& key,
                                               int attempt, const std::string& address,
                                               std::uint16_t port) {
  const std::lock_guard lock(mutex_);
  if (address.empty() && !jobs_.contains(uid)) return {};
  Job& job = jobs_[uid];
  if (job.attempt != attempt) job = Job{};  // its last words were its end, and newer
  job.key = key;
  job.attempt = attempt;
  job.port = port;
  if (address.empty()) {
    job.address.clear();
    return job.told;
  }
  if (job.address != address) {
    job.address = address;
    job.interval = options_.interval;
    job.due = Clock::now();
  }
  return job.told;
}

void ProgressPoller::forget(const std::string& uid) {
  const std::lock_guard lock(mutex_);
  jobs_.erase(uid);
}

void ProgressPoller::run(std::stop_token stop) {
  std::mutex nothing;
  std::condition_variable_any sleeping;
  while (!stop.stop_requested()) {
    poll_due(Clock::now());
    std::unique_lock lock(nothing);
    sleeping.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
  }
}

void ProgressPoller::poll_due(Clock::time_point now) {
  struct Due {
    Clock::time_point since;
    std::string uid;
    std::string address;
    std::uint16_t port;
  };
  std::vector<Due> due;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [uid, job] : jobs_)
      if (!job.address.empty() && job.due <= now)
        due.push_back({job.due, uid, job.address, job.port});
  }
  std::ranges::sort(due, {}, &Due::since);
  due.resize(std::min(due.size(), options_.most_per_second));
  std::vector<std::function<void()>> calls;
  for (const Due& one : due)
    calls.emplace_back([&, one] { poll(one.uid, one.address, one.port, now); });
  parallel_.run(calls);
}

void ProgressPoller::poll(const std::string& uid, const std::string& address, std::uint16_t port,
                          Clock::time_point now) {
  const auto body = options_.get(address, port);
  const auto document = body ? contract::parse_progress(*body) : std::nullopt;
  std::string key;
  {
    const std::lock_guard lock(mutex_);
    const auto found = jobs_.find(uid);
    if (found == jobs_.end() || found->second.address != address) return;
    Job& job = found->second;
    job.interval = document ? options_.interval : std::min(job.interval * 2, options_.longest);
    job.due = now + job.interval;
    if (!document || job.told == *document) return;
    job.told = *document;
    key = job.key;
  }
  options_.news(key);
}

}  // namespace coxswain::cluster
