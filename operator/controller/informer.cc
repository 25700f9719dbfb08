#include "operator/controller/informer.h"

#include <algorithm>
#include <optional>

namespace coxswain::controller {

namespace {

using std::chrono::milliseconds;

constexpr std::chrono::minutes kListAgain{10};
constexpr std::chrono::seconds kLasted{1};  // a watch that ended sooner, with nothing, did not work

milliseconds delay_after(int failures, double random) {
  constexpr milliseconds kFirst{800};
  constexpr milliseconds kMost{30'000};
  const milliseconds delay = std::min(kMost, kFirst * (1 << std::clamp(failures - 1, 0, 10)));
  return delay + std::chrono::floor<milliseconds>(delay / 10 * random);
}

kube::ApiError untrusted(const std::string& what) {
  return {.code = 0, .reason = "Untrusted", .message = what, .retry_after = {}};
}

// The API server refuses this watch and would again: a list shows why, or mends it.
bool is_refused(const kube::ApiError& error) {
  return error.code >= 400 && error.code < 500 && error.code != 429;
}

}  // namespace

Informer::Informer(kube::Client& client, kube::Resource resource, InformerOptions options,
                   ObjectSink& sink)
    : client_(client), resource_(std::move(resource)), options_(std::move(options)), sink_(sink) {}

void Informer::run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    options_.on_turn();
    switch (state_) {
      case State::kListing:
        list();
        break;
      case State::kWatching:
        watch(stop);
        break;
      case State::kResting:
        options_.sleep(rest_, stop);
        end_rest();
        break;
    }
  }
}

void Informer::watch(std::stop_token stop) {
  if (!begin_watch()) return;
  // Ended from within as well: by an event that can't be trusted.
  std::stop_source end_source;
  const std::stop_callback forward(stop, [&] { end_source.request_stop(); });
  const kube::WatchEnd end =
      client_.watch(resource_, options_.query, std::to_string(version_), end_source.get_token(),
                    [&](const kube::WatchEvent& event) {
                      if (!hear(event)) end_source.request_stop();
                    });
  if (!stop.stop_requested()) end_watch(end);
}

void Informer::list() {
  sink_.begin_list();
  const auto answer = client_.list(
      resource_, options_.query,
      [this](const kube::Json& object) {
        options_.on_turn();
        sink_.listed(object);
      },
      [this] { sink_.begin_list(); });
  if (!answer) {
    tell(answer.error());
    if (is_refused(answer.error())) set_tried(false);
    return rest_before(State::kListing);
  }
  const std::uint64_t version = kube::version_number(*answer);
  if (version == 0) {
    tell(untrusted("the list's resourceVersion is no number"));
    return rest_before(State::kListing);
  }
  version_ = version;
  listed_ = options_.clock.now();
  sink_.end_list(version_);
  set_tried(true);
  state_ = State::kWatching;
}

bool Informer::begin_watch() {
  watched_ = options_.clock.now();
  saw_any_ = is_broken_ = false;
  if (watched_ - listed_ < kListAgain) return true;
  state_ = State::kListing;
  return false;
}

bool Informer::hear(const kube::WatchEvent& event) {
  const std::uint64_t version = kube::meta_of(event.object).resource_version;
  // Versions in a watch only grow. A repeated one may hide that others are missing.
  is_broken_ = is_broken_ || version < version_ || version == 0;
  if (is_broken_) return false;
  saw_any_ = true;
  options_.on_turn();
  version_ = version;
  take(event);
  return true;
}

void Informer::end_watch(const kube::WatchEnd& end) {
  const bool lasted = options_.clock.now() - watched_ >= kLasted;
  const bool worked = saw_any_ || (!end.error && lasted);
  if (worked) {
    failures_ = 0;
    told_.clear();
  }
  if (is_broken_) tell(untrusted("a watch went back to an older version"));
  if (end.expired || is_broken_) {
    // At once, but not twice in a row.
    if (failures_++ > 0) return rest_before(State::kListing);
    state_ = State::kListing;
    return;
  }
  if (end.error) tell(*end.error);
  if (!end.error && worked) return;
  rest_before(end.error && is_refused(*end.error) ? State::kListing : State::kWatching);
}

void Informer::take(const kube::WatchEvent& event) {
  switch (event.type) {
    case kube::WatchEventType::kAdded:
    case kube::WatchEventType::kModified:
      return sink_.changed(event.object);
    case kube::WatchEventType::kDeleted:
      return sink_.deleted(event.object);
    case kube::WatchEventType::kBookmark:
      return sink_.progress(version_);
    case kube::WatchEventType::kError:  // ends the watch; the client says so
      return;
  }
}

void Informer::rest_before(State state) {
  after_rest_ = state;
  rest_ = delay_after(++failures_, options_.clock.random());
  state_ = State::kResting;
}

void Informer::tell(const kube::ApiError& error) {
  if (told_.emplace(error.code, error.reason).second) options_.on_error(error);
}

void Informer::set_tried(bool synced) {
  if (synced && !this->synced()) options_.on_synced();
  const std::lock_guard lock(mutex_);
  synced_ = synced_ || synced;
  tried_ = true;
  is_tried_.notify_all();
}

bool Informer::synced() const {
  const std::lock_guard lock(mutex_);
  return synced_;
}

bool Informer::wait_synced(std::stop_token stop) const {
  std::unique_lock lock(mutex_);
  return is_tried_.wait(lock, stop, [this] { return synced_; });
}

bool Informer::wait_tried(std::stop_token stop) const {
  std::unique_lock lock(mutex_);
  return is_tried_.wait(lock, stop, [this] { return tried_; });
}

}  // namespace coxswain::controller
