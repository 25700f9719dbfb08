#include "tests/simulation/operator_instance.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/cluster/pod.h"

namespace coxswain::test {

using controller::Informer;
using std::chrono::milliseconds;
using Seconds = std::chrono::seconds;

namespace {

constexpr std::size_t kMostRounds = 60;  // in a second, besides one for each job
constexpr job::Seconds kWatchLasts{50};

kube::Clock clock_of(Wire& wire) {
  return {.now =
              [&wire] {
                return wire.mutation == Mutation::kTimersLost
                           ? std::chrono::steady_clock::time_point()
                           : wire.now();
              },
          .wall = [&wire] { return wire.scene.server.now + wire.skew + wire.elapsed; },
          .random = [&wire] { return wire.random.below(1000) / 1000.0; }};
}

kube::ClientOptions client_options(Link& link, Wire& wire) {
  kube::ClientOptions options;
  options.clock = clock_of(wire);
  options.sleep = [&link](milliseconds time) { link.wait(time); };
  options.may_write = [&link, &wire] {
    return link.holds_lease || wire.mutation == Mutation::kActsWithoutLease;
  };
  return options;
}

LoopOptions loop_options(Wire& wire, kube::Client& client) {
  LoopOptions options;
  options.cluster.installation.trainer_image = "trainer:1";
  options.cluster.parallel_calls = 0;
  options.cluster.recorded = [](const job::TrainingJob&, const job::Status&) {};
  options.cluster.ask = [](const job::TrainingJob&, const std::string&) {
    return contract::ProgressDocument{};
  };
  options.cluster.report = [&client](const Json& event) {
    (void)client.create(kube::kEvents, kube::meta_of(event).name_space, event);
  };
  options.cluster.clock = clock_of(wire);
  if (wire.trace)
    options.log = [](Severity, std::string_view message, const Fields& fields) {
      fmt::print("       {}\n", log_text(message, fields));
    };
  return options;
}

kube::WatchEvent bookmark(std::uint64_t version) {
  return {kube::WatchEventType::kBookmark,
          {{"metadata", {{"resourceVersion", std::to_string(version)}}}}};
}

controller::Metrics& metrics() {
  static controller::Metrics all;
  return all;
}

}  // namespace

OperatorInstance::OperatorInstance(Wire& wire)
    : wire_(wire),
      link_(wire),
      client_(link_, client_options(link_, wire)),
      loop_(client_, loop_options(wire, client_), metrics(), watchdog_),
      carriers_{Carrier{.resource = "trainingjobs", .watch = &loop_.watches()[0]},
                Carrier{.resource = "pods", .watch = &loop_.watches()[1]}} {
  link_.loop = &loop_;
}

bool OperatorInstance::step() {
  const auto end = wire_.now() - wire_.elapsed + Seconds(1);
  for (std::size_t round = 0; round < kMostRounds + loop_.jobs().size(); ++round) {
    for (Carrier& carrier : carriers_) carry(carrier);
    if (!loop_.listed()) return true;
    if (loop_.pass()) {
      if (link_.must_crash) link_.crash();
      if (wire_.now() >= end) return true;  // a call took its time
      continue;
    }
    const auto next = loop_.queue().next_time();
    if (!next || *next >= end || *next < wire_.now()) return true;
    wire_.elapsed = std::chrono::ceil<milliseconds>(*next - (end - Seconds(1)));
  }
  return false;
}

void OperatorInstance::carry(Carrier& carrier) {
  if (carrier.is_listing || !carrier.watch->may_begin()) return;
  Informer& informer = *carrier.watch->informer;
  if (informer.state() == Informer::State::kResting) {
    if (!carrier.rests_until) carrier.rests_until = wire_.now() + informer.rest();
    if (wire_.now() < *carrier.rests_until) return;
    carrier.rests_until.reset();
    informer.end_rest();
  }
  if (informer.state() == Informer::State::kListing) {
    carrier.is_listing = true;
    informer.list();
    carrier.is_listing = false;
  }
  if (informer.state() == Informer::State::kWatching) hear(carrier);
}

void OperatorInstance::begin(Carrier& carrier) {
  if (!carrier.watch->informer->begin_watch()) return;
  carrier.watches_since = wire_.scene.server.now;
  const auto& history = wire_.scene.server.history();
  carrier.ordinal = 0;
  for (carrier.next = 0; carrier.next < history.size() &&
                         history[carrier.next].version <= carrier.watch->informer->version();
       ++carrier.next)
    carrier.ordinal += history[carrier.next].resource == carrier.resource;
}

void OperatorInstance::end(Carrier& carrier, const kube::WatchEnd& end) {
  carrier.watches_since.reset();
  carrier.watch->informer->end_watch(end);
}

void OperatorInstance::hear(Carrier& carrier) {
  if (!carrier.watches_since) begin(carrier);
  if (!carrier.watches_since) return;
  const ApiServer& server = wire_.scene.server;
  Wire::Trouble* trouble = nullptr;
  for (Wire::Trouble& each : wire_.troubles)
    if (each.plan.watched == carrier.resource && !each.happened) trouble = &each;
  if (trouble && trouble->silent_until) {
    const bool over = server.now >= *trouble->silent_until;
    if (!over && trouble->plan.fault != Fault::kLose) return;
    trouble->happened = over;
    if (over && trouble->plan.fault != Fault::kDelay) {
      const bool is_heard = wire_.mutation != Mutation::kExpiryUnheard;
      if (!is_heard) carrier.watch->informer->hear(bookmark(server.version()));
      return end(carrier, {.expired = is_heard, .error = {}});
    }
  }
  const auto& history = server.history();
  for (; carrier.next < history.size(); ++carrier.next) {
    if (history[carrier.next].resource != carrier.resource) continue;
    if (trouble && carrier.ordinal >= trouble->plan.at && is_silent(carrier, *trouble)) return;
    if (!tell(carrier, history[carrier.next])) return end(carrier, {});
    ++carrier.ordinal;
  }
  if (server.now < *carrier.watches_since + kWatchLasts) return;
  carrier.watch->informer->hear(bookmark(server.version()));
  end(carrier, {});
}

// The plan's fault, as the watch comes to the revision at which it happens.
bool OperatorInstance::is_silent(Carrier& carrier, Wire::Trouble& trouble) {
  const FaultPlan& plan = trouble.plan;
  if (plan.fault == Fault::kRepeat) {
    const auto& history = wire_.scene.server.history();
    if (!trouble.happened)
      for (std::size_t i = 0; i < carrier.next; ++i)
        if (history[i].resource == carrier.resource && !tell(carrier, history[i])) {
          trouble.happened = true;
          end(carrier, {});
          return true;
        }
    trouble.happened = true;
    return false;
  }
  if (trouble.silent_until) return false;
  trouble.silent_until = wire_.scene.server.now + job::Seconds(plan.seconds);
  if (plan.fault != Fault::kLose) return true;
  ++carrier.next;
  ++carrier.ordinal;
  return true;
}

// False: it can't be trusted.
bool OperatorInstance::tell(Carrier& carrier, const Revision& revision) {
  if (carrier.resource == "pods") {
    const Json& metadata = revision.object->at("metadata");
    if (!metadata.contains("labels") || !metadata.at("labels").contains(cluster::kJobLabel))
      return true;
  }
  const bool deleted = revision.type == kube::WatchEventType::kDeleted;
  if (deleted && wire_.mutation == Mutation::kDeletionsUnheard) return true;
  return carrier.watch->informer->hear({revision.type, *revision.object});
}

}  // namespace coxswain::test
