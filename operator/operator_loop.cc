#include "operator/operator_loop.h"

#include <algorithm>
#include <utility>

#include "operator/cluster/pod.h"
#include "operator/controller/interruptible_sleep.h"
#include "operator/controller/store_sink.h"
#include "operator/job/observation.h"

namespace coxswain {

namespace {

using cluster::Job;
using std::chrono::milliseconds;

constexpr milliseconds kPodChangesTogether{10};  // pods of a gang change in bursts
constexpr milliseconds kLookAgain{100};

// A turn of a loop, until its end however it comes.
class Turn {
 public:
  Turn(controller::Watchdog& watchdog, std::string who)
      : watchdog_(watchdog), who_(std::move(who)) {
    watchdog_.turn(who_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { watchdog_.rest(who_); }

 private:
  controller::Watchdog& watchdog_;
  const std::string who_;
};

bool of_pods(const OperatorLoop::Watch& watch) { return watch.after != nullptr; }

}  // namespace

OperatorLoop::OperatorLoop(kube::Client& client, LoopOptions options, controller::Metrics& metrics,
                           controller::Watchdog& watchdog)
    : client_(client),
      options_(std::move(options)),
      watchdog_(watchdog),
      queue_(options_.cluster.clock),
      cluster_(client, jobs_, pods_, with_wake(options_.cluster)),
      reconciler_(cluster_, job::patience),
      controller_(
          queue_, [this](const std::string& key) { return reconcile(key); }, metrics,
          options_.workers, [this](const std::string& key, const std::string& what) {
            options_.log(Severity::kError, "reconcile failed", {{"job", key}, {"error", what}});
          }) {
  std::vector<std::string> namespaces = options_.namespaces;
  if (namespaces.empty()) namespaces.emplace_back();
  for (const std::string& one : namespaces) watch_jobs(one);
  for (std::size_t i = 0; i < namespaces.size(); ++i) watch_pods(namespaces[i], watches_[i]);
}

cluster::KubeOptions OperatorLoop::with_wake(cluster::KubeOptions options) {
  options.wake = [this](const std::string& key, milliseconds delay) {
    queue_.add_after(key, delay);
  };
  return options;
}

void OperatorLoop::watch_jobs(const std::string& name_space) {
  const kube::ListQuery query{.name_space = name_space, .label_selector = ""};
  auto sink = std::make_unique<controller::StoreSink<Job>>(
      jobs_, name_space, cluster::read_job, [this](const kube::ObjectMeta& meta, const Job&) {
        if (!jobs_.find(kube::key_of(meta))) forget(meta.uid);
        queue_.add(kube::key_of(meta));
      });
  add_watch(cluster::kTrainingJobs, query, std::move(sink), nullptr, [] {});
}

void OperatorLoop::watch_pods(const std::string& name_space, const Watch& jobs) {
  const kube::ListQuery query{.name_space = name_space, .label_selector = cluster::kJobLabel};
  auto sink = std::make_unique<controller::StoreSink<cluster::SeenPod>>(
      pods_, name_space, cluster::read_pod,
      [this](const kube::ObjectMeta& meta, const cluster::SeenPod& pod) {
        cluster_.heard(meta, pod);
        queue_.add_after(pod.job_key, kPodChangesTogether);
      });
  add_watch(kube::kPods, query, std::move(sink), &jobs,
            [this, name_space] { pods_listed(name_space); });
}

void OperatorLoop::add_watch(const kube::Resource& resource, const kube::ListQuery& query,
                             std::unique_ptr<controller::ObjectSink> sink, const Watch* after,
                             std::function<void()> on_synced) {
  const std::string who =
      "watch of " + resource.plural + (query.name_space.empty() ? "" : " in " + query.name_space);
  controller::InformerOptions informer;
  informer.query = query;
  informer.clock = options_.cluster.clock;
  informer.on_synced = std::move(on_synced);
  informer.on_turn = [this, who] { watchdog_.turn(who); };
  informer.on_error = [this, kind = resource.kind, query](const kube::ApiError& error) {
    Fields fields = {{"kind", kind}, {"error", to_text(error)}};
    if (!query.name_space.empty()) fields.emplace_back("namespace", query.name_space);
    if (error.code == 404)  // of a whole kind
      fields.emplace_back("fix", "install its CRD: kubectl apply -f crds/");
    options_.log(Severity::kWarning, "watch failed", fields);
  };
  Watch& watch =
      watches_.emplace_back(Watch{query.name_space, who, after, std::move(sink), nullptr});
  watch.informer =
      std::make_unique<controller::Informer>(client_, resource, informer, *watch.sink);
}

void OperatorLoop::carry(Watch& watch, std::stop_token stop) {
  if (watch.after && !watch.after->informer->wait_synced(stop)) return;
  watch.informer->run(stop);
  watchdog_.rest(watch.who);
}

bool OperatorLoop::listed() const {
  return std::ranges::any_of(
      watches_, [](const Watch& watch) { return of_pods(watch) && watch.informer->synced(); });
}

bool OperatorLoop::wait_listed(std::stop_token stop) {
  for (const Watch& watch : watches_) {
    // Pods whose jobs are refused are not listed.
    const bool is_asked = !of_pods(watch) || watch.after->informer->synced();
    if (is_asked && !watch.informer->wait_tried(stop)) return false;
  }
  while (!listed() && !stop.stop_requested()) controller::interruptible_sleep(kLookAgain, stop);
  if (stop.stop_requested()) return false;
  for (const Watch& watch : watches_)
    if (of_pods(watch) && !watch.informer->synced())
      options_.log(Severity::kWarning, "namespace is missing, or may not be watched",
                   {{"namespace", watch.name_space}});
  return true;
}

void OperatorLoop::carry_passes(std::stop_token stop) {
  ready_ = true;
  options_.log(Severity::kInfo, "ready",
               {{"jobs", std::to_string(jobs_.size())}, {"pods", std::to_string(pods_.size())}});
  controller_.run(std::move(stop));
  ready_ = false;
}

// Of a namespace that may have been missing until now.
void OperatorLoop::pods_listed(const std::string& name_space) {
  if (ready_) options_.log(Severity::kInfo, "namespace is watched", {{"namespace", name_space}});
  for (const auto& entry : jobs_.entries())
    if (name_space.empty() || entry.meta.name_space == name_space)
      queue_.add(kube::key_of(entry.meta));
}

// A job whose namespace's pods are not listed yet comes again when they are.
std::optional<milliseconds> OperatorLoop::reconcile(const std::string& key) {
  if (pods_.seen_version(key.substr(0, key.find('/'))) == 0) return std::nullopt;
  const Turn turn(watchdog_, "pass over " + key);
  const Job job = cluster_.read(key);
  if (!job) return std::nullopt;
  return reconciler_.reconcile(*job);
}

void OperatorLoop::forget(const std::string& uid) {
  reconciler_.forget(uid);
  options_.forgotten(uid);
}

}  // namespace coxswain
