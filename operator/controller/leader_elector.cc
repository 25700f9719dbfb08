#include "operator/controller/leader_elector.h"

#include <ctime>
#include <memory>
#include <random>
#include <utility>

#include "operator/controller/interruptible_sleep.h"

namespace coxswain::controller {

namespace {

// A tenth apart on average, so that many who wait do not ask at once.
constexpr double kJitter = 0.2;

Monotonic boot_time() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

LeaderClock real_leader_clock() {
  const auto engine = std::make_shared<std::minstd_rand>(std::random_device{}());
  return {.now = boot_time,
          .wall = [] { return std::chrono::system_clock::now(); },
          .sleep = interruptible_sleep,
          .random = [engine] { return std::generate_canonical<double, 32>(*engine); }};
}

LeaderElector::LeaderElector(kube::Client& client, LeaderOptions options)
    : client_(client), options_(std::move(options)) {}

bool LeaderElector::acquire(std::stop_token stop) {
  while (!stop.stop_requested()) {
    if (try_once()) return true;
    rest(stop);
  }
  return false;
}

bool LeaderElector::keep(std::stop_token stop) {
  while (true) {
    rest(stop);
    if (stop.stop_requested()) {
      release();
      return true;
    }
    if (!try_once() && !holds()) return false;
  }
}

bool LeaderElector::holds() const { return options_.clock.now() < Monotonic(holds_until_.load()); }

std::chrono::milliseconds LeaderElector::left_of_try() const {
  return std::chrono::floor<std::chrono::milliseconds>(try_ends_ - options_.clock.now());
}

std::string LeaderElector::leader() const {
  const std::lock_guard lock(mutex_);
  return leader_;
}

bool LeaderElector::try_once() {
  // From before the first call: whoever waits for us to expire counts from a later moment.
  const Monotonic began = options_.clock.now();
  try_ends_ = began + options_.times.one_try;
  const auto object = look();
  if (!object) return false;
  const LeaseMove move = next_move(view_, options_.identity, options_.clock.now(), options_.times);
  const bool is_others = move == LeaseMove::kWait || move == LeaseMove::kTakeOver;
  if (is_others) holds_until_ = 0;
  if (move == LeaseMove::kWait) return false;
  const LeaseRecord record =
      next_record(view_, options_.identity, options_.clock.wall(), options_.times);
  if (!write(record, *object)) return false;
  holds_until_ = (began + options_.times.renew_deadline).count();
  return true;
}

// The Lease as it is, null where there is none; nullopt: it could not be asked for.
std::optional<kube::Json> LeaderElector::look() {
  auto answer = client_.get(kube::kLeases, options_.name_space, options_.name);
  if (!answer && answer.error().code != 404) {
    options_.on_error(answer.error());
    return std::nullopt;
  }
  kube::Json object = answer ? std::move(*answer) : kube::Json();
  see(object);
  return object;
}

void LeaderElector::see(const kube::Json& object) {
  std::optional<LeaseRecord> record;
  if (!object.is_null()) record = read_lease(object);
  view_ = look_at(std::move(view_), std::move(record), options_.clock.now());
  const std::lock_guard lock(mutex_);
  leader_ = view_.record ? view_.record->holder : "";
}

// Creates the Lease, or changes it if it is still as `seen`; others' labels stay.
bool LeaderElector::write(const LeaseRecord& record, const kube::Json& seen) {
  kube::Json object = to_json(record, options_.name_space, options_.name);
  if (!seen.is_null()) object["metadata"] = seen.at("metadata");
  const auto answer =
      seen.is_null() ? client_.create(kube::kLeases, options_.name_space, object)
                     : client_.update(kube::kLeases, options_.name_space, options_.name, object);
  if (answer) {
    see(*answer);
    return true;
  }
  // 409: another was first, or it was us, by a call whose answer got lost. The next look tells.
  if (answer.error().code != 409) options_.on_error(answer.error());
  return false;
}

void LeaderElector::release() {
  holds_until_ = 0;
  try_ends_ = options_.clock.now() + options_.times.one_try;
  const auto object = look();
  if (!object || !view_.record || view_.record->holder != options_.identity) return;
  write(released_record(*view_.record, options_.clock.wall()), *object);
}

void LeaderElector::rest(std::stop_token stop) {
  const double factor = 1 + kJitter * options_.clock.random();
  const Monotonic retry = options_.times.retry;
  options_.clock.sleep(
      Monotonic(static_cast<Monotonic::rep>(static_cast<double>(retry.count()) * factor)), stop);
}

}  // namespace coxswain::controller
