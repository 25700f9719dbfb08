#include "tests/simulation/operator_instance.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/cluster/pod.h"
#include "operator/job/observation.h"
#include "trainer/contract/error.h"

namespace coxswain::test {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kRetry{1000};
constexpr std::size_t kMostRounds = 60;  // in a second, besides one for each job

kube::ClientOptions client_options(Link& link, const Wire& wire) {
  kube::ClientOptions options;
  options.sleep = [](milliseconds) {};
  options.may_write = [&link, &wire] {
    return link.holds_lease || wire.mutation == Mutation::kActsWithoutLease;
  };
  return options;
}

cluster::KubeOptions cluster_options(const Wire& wire, kube::Client& client,
                                     std::function<void(const std::string&, milliseconds)> wake) {
  cluster::KubeOptions options;
  options.installation.trainer_image = "trainer:1";
  options.installation.parameter_server = wire.parameter_server;
  options.parallel_calls = 0;
  options.wake = std::move(wake);
  options.recorded = [](const job::TrainingJob&, const job::Status&) {};
  options.ask = [](const job::TrainingJob&, const std::string&) {
    return contract::ProgressDocument{};
  };
  options.report = [&client](const Json& event) {
    (void)client.create(kube::kEvents, kube::meta_of(event).name_space, event);
  };
  options.clock = [&wire] { return wire.scene.server.now + wire.skew; };
  options.steady = [&wire] {
    return cluster::SteadyTime(wire.scene.server.now.time_since_epoch());
  };
  return options;
}

}  // namespace

OperatorInstance::OperatorInstance(Wire& wire)
    : wire_(wire),
      link_(wire),
      client_(link_, client_options(link_, wire)),
      cluster_(
          client_, jobs_, pods_,
          cluster_options(wire, client_,
                          [this](const std::string& key, milliseconds delay) { add(key, delay); })),
      reconciler_(cluster_, job::patience),
      job_sink_(jobs_, "", cluster::read_job,
                [this](const kube::ObjectMeta& meta, const cluster::Job&) {
                  add(kube::key_of(meta), milliseconds(0));
                }),
      pod_sink_(pods_, "", cluster::read_pod,
                [this](const kube::ObjectMeta& meta, const cluster::SeenPod& pod) {
                  cluster_.heard(meta, pod);
                  add(pod.job_key, milliseconds(0));
                }) {
  link_.jobs = &jobs_;
  job_watch_ = {.resource = "trainingjobs", .sink = &job_sink_};
  pod_watch_ = {.resource = "pods", .sink = &pod_sink_};
}

bool OperatorInstance::step() {
  if (!listed_ && !list_all()) return true;
  for (std::size_t round = 0; round < kMostRounds + jobs_.size(); ++round) {
    hear(pod_watch_);
    hear(job_watch_);
    const auto due = std::ranges::find_if(
        due_, [&](const auto& each) { return each.second <= wire_.scene.server.now; });
    if (due == due_.end()) return true;
    const std::string key = due->first;
    due_.erase(due);
    work(key);
    if (link_.must_crash) throw Crash{};
  }
  return false;
}

bool OperatorInstance::list_all() {
  listed_ = list(job_watch_) && list(pod_watch_);
  return listed_;
}

bool OperatorInstance::list(Watch& watch) {
  const bool of_pods = &watch == &pod_watch_;
  const bool first = !listed_;
  controller::ObjectSink& sink = *watch.sink;
  const bool keeps_vanished = !first && wire_.mutation == Mutation::kRelistKeepsVanished;
  const bool lists_nothing =
      first && of_pods && wire_.mutation == Mutation::kActsBeforePodsAreListed;
  const kube::ListQuery query{.name_space = "",
                              .label_selector = of_pods ? cluster::kJobLabel : ""};
  sink.begin_list();
  const auto version =
      client_.list(of_pods ? kube::kPods : cluster::kTrainingJobs, query, [&](const Json& item) {
        if (keeps_vanished) sink.changed(item);
        if (!keeps_vanished && !lists_nothing) sink.listed(item);
      });
  if (!version) return false;
  const std::uint64_t seen = std::stoull(*version);
  if (!keeps_vanished) sink.end_list(seen);
  if (of_pods) link_.pods_seen = seen;
  const auto& history = wire_.scene.server.history();
  watch.next = 0;
  watch.ordinal = 0;
  for (; watch.next < history.size() && history[watch.next].version <= seen; ++watch.next)
    watch.ordinal += history[watch.next].resource == watch.resource;
  return true;
}

void OperatorInstance::hear(Watch& watch) {
  const FaultPlan& plan = wire_.plan;
  const bool afflicted = plan.watched == watch.resource;
  if (afflicted && wire_.silent_until) {
    const bool over = wire_.scene.server.now >= *wire_.silent_until;
    if (!over && plan.fault != Fault::kLose) return;
    if (over && plan.fault != Fault::kDelay && !wire_.happened) wire_.happened = list(watch);
  }
  const auto& history = wire_.scene.server.history();
  for (; watch.next < history.size(); ++watch.next) {
    if (history[watch.next].resource != watch.resource) continue;
    if (afflicted && watch.ordinal >= plan.at && is_silent(watch)) return;
    tell(watch, history[watch.next]);
    ++watch.ordinal;
  }
}

// The plan's fault, as the watch comes to the revision at which it happens.
bool OperatorInstance::is_silent(Watch& watch) {
  const FaultPlan& plan = wire_.plan;
  if (plan.fault == Fault::kRepeat) {
    if (!wire_.happened)
      for (std::size_t i = 0; i < watch.next; ++i)
        if (wire_.scene.server.history()[i].resource == watch.resource)
          tell(watch, wire_.scene.server.history()[i]);
    wire_.happened = true;
    return false;
  }
  if (wire_.silent_until) return false;
  wire_.silent_until = wire_.scene.server.now + job::Seconds(plan.seconds);
  if (plan.fault != Fault::kLose) return true;
  ++watch.next;
  ++watch.ordinal;
  return true;
}

void OperatorInstance::tell(Watch& watch, const Revision& revision) {
  const bool deleted = revision.type == kube::WatchEventType::kDeleted;
  if (watch.resource == "pods") {
    link_.pods_seen = std::max(link_.pods_seen, revision.version);
    const Json& metadata = revision.object->at("metadata");
    if (!metadata.contains("labels") || !metadata.at("labels").contains(cluster::kJobLabel)) return;
  }
  if (deleted && wire_.mutation == Mutation::kDeletionsUnheard) return;
  if (deleted)
    watch.sink->deleted(*revision.object);
  else
    watch.sink->changed(*revision.object);
}

void OperatorInstance::add(const std::string& key, milliseconds delay) {
  const job::Time when = wire_.scene.server.now + std::chrono::ceil<job::Seconds>(delay);
  const auto [place, fresh] = due_.try_emplace(key, when);
  if (!fresh) place->second = std::min(place->second, when);
}

void OperatorInstance::work(const std::string& key) {
  try {
    cluster::Job job;
    if (wire_.mutation == Mutation::kJobNotReadAgain) {
      const auto entry = jobs_.find(key);
      if (entry) job = entry->value;
    } else {
      job = cluster_.read(key);
    }
    if (!job) return;
    if (const auto next = reconciler_.reconcile(*job)) add(key, *next);
  } catch (const Error& error) {
    if (wire_.trace) fmt::print("       given up: {}\n", error.what());
    add(key, kRetry);
  }
}

}  // namespace coxswain::test
