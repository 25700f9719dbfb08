#include "operator/operator.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <thread>

#include "operator/cluster/event_queue.h"
#include "operator/cluster/kube_cluster.h"
#include "operator/cluster/pod.h"
#include "operator/cluster/progress_poller.h"
#include "operator/controller/controller.h"
#include "operator/controller/informer.h"
#include "operator/controller/interruptible_sleep.h"
#include "operator/controller/leader_elector.h"
#include "operator/controller/store_sink.h"
#include "operator/controller/watchdog.h"
#include "operator/job/host_ports.h"
#include "operator/job/observation.h"
#include "operator/job/words.h"
#include "operator/kube/http_transport.h"
#include "operator/log.h"
#include "operator/reconciler.h"
#include "trainer/contract/error.h"
#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/http_endpoint.h"

namespace coxswain {

namespace {

using cluster::Job;
using std::chrono::milliseconds;

constexpr milliseconds kPodChangesTogether{10};  // pods of a gang change in bursts
constexpr int kHttpThreads = 1;                  // as fast as eight
// How long calls under way may take once we are asked to stop.
constexpr milliseconds kAnswersWithin{2500};
constexpr milliseconds kLeaseReleasedWithin{1000};
constexpr std::chrono::minutes kTellAgain{1};
constexpr milliseconds kLookAgain{100};
constexpr const char* kLeaseLoop = "renewal of the lease";
constexpr milliseconds kEventWithin{2000};  // a try; an event is worth two

// Most of a pod's bytes, and nobody here reads them. Of no other kind does anybody either.
const kube::LeftOut kUnread{
    {"metadata", "managedFields"}, {"spec", "containers"}, {"spec", "initContainers"}};

kube::ListQuery query_of(const std::string& name_space, const std::string& selector = "") {
  kube::ListQuery query;
  query.name_space = name_space;
  query.label_selector = selector;
  return query;
}

// Everything that watches and acts, in the order in which it depends on what is above it.
class Operator {
 public:
  Operator(const OperatorOptions& options, const Log& log)
      : options_(options),
        log_(log),
        transport_(options.config, [this](const std::string& text) { warn(text); }),
        lease_transport_(options.config),  // the same files: one warning is enough
        client_(transport_, client_options()),
        event_client_(transport_, event_client_options()),
        lease_client_(lease_transport_, lease_client_options()),
        elector_(lease_client_, leader_options()),
        poller_({.get = cluster::get_progress,
                 .news = [this](const std::string& key) { queue_.add(key); }}),
        events_({.send =
                     [this](const kube::Json& event) {
                       const std::string name_space = kube::meta_of(event).name_space;
                       return event_client_.create(kube::kEvents, name_space, event).ok();
                     },
                 .dropped = [this] { metrics_.count_dropped_event(); }}),
        cluster_(client_, jobs_, pods_, cluster_options()),
        reconciler_(cluster_, job::patience),
        controller_(
            queue_, [this](const std::string& key) { return reconcile(key); }, metrics_,
            options.workers,
            [this](const std::string& key, const std::string& what) {
              log_.line(Severity::kError, "reconcile failed", {{"job", key}, {"error", what}});
            }) {}

  // Ends the calls that wait for an answer; see give_up_lease().
  void give_up_calls() {
    calls_over_.request_stop();
    transport_.give_up();
  }

  // Those about the lease as well; apart, so that it can be released although other calls hang.
  void give_up_lease() { lease_transport_.give_up(); }

  // Leads, or waits to lead, until asked to stop. False: the lease was lost.
  bool run(std::stop_token stop) {
    if (!options_.leader_elect) {
      work(stop);
      return true;
    }
    log_.line(Severity::kInfo, "waiting for the lease", {{"identity", options_.identity}});
    standing_by_ = true;
    if (!elector_.acquire(stop)) return true;
    standing_by_ = false;
    log_.line(Severity::kInfo, "leading", {{"identity", options_.identity}});
    metrics_.set_leader(true);
    // The lease is released after the last write, so that the next leader meets no other.
    std::stop_source work_over, lease_over;
    const std::stop_callback on_stop(stop, [&] { work_over.request_stop(); });
    const std::jthread worker([&] {
      work(work_over.get_token());
      lease_over.request_stop();
    });
    const bool kept = elector_.keep(lease_over.get_token());
    watchdog_.rest(kLeaseLoop);
    work_over.request_stop();
    metrics_.set_leader(false);
    return kept;
  }

  std::optional<contract::HttpResponse> serve(const std::string& path) const {
    if (path == "/healthz") {
      const std::string stuck = watchdog_.stuck();
      if (stuck.empty()) return contract::HttpResponse{.body = "ok\n"};
      return contract::HttpResponse{.status = 503, .body = "stuck: " + stuck + "\n"};
    }
    if (path == "/readyz") {
      if (ready_ || standing_by_) return contract::HttpResponse{.body = "ok\n"};
      return contract::HttpResponse{.status = 503, .body = "jobs and pods are not listed yet\n"};
    }
    if (path != "/metrics") return std::nullopt;
    return contract::HttpResponse{.content_type = "text/plain; version=0.0.4",
                                  .body = metrics_text()};
  }

 private:
  void warn(const std::string& text) {
    log_.line(Severity::kWarning, "connection", {{"problem", text}});
  }

  kube::ClientOptions client_options() {
    kube::ClientOptions client;
    client.left_out = kUnread;
    client.sleep = [this](milliseconds time) {
      controller::interruptible_sleep(time, calls_over_.get_token());
    };
    if (options_.leader_elect) client.may_write = [this] { return elector_.holds(); };
    client.on_call = [this](const kube::Call& call) { metrics_.count_call(call); };
    return client;
  }

  kube::ClientOptions event_client_options() {
    kube::ClientOptions client = client_options();
    client.deadline = [] { return kEventWithin; };
    client.tries = 2;
    return client;
  }

  kube::ClientOptions lease_client_options() {
    kube::ClientOptions client;
    client.tries = 1;  // the elector has its own times
    client.deadline = [this] { return elector_.left_of_try(); };
    client.on_call = [this](const kube::Call& call) { metrics_.count_call(call); };
    return client;
  }

  controller::LeaderOptions leader_options() {
    controller::LeaderOptions leader;
    leader.name_space = options_.lease_namespace;
    leader.identity = options_.identity;
    leader.on_error = [this](const kube::ApiError& error) { lease_failed(error); };
    leader.clock.sleep = [this](controller::Monotonic time, std::stop_token stop) {
      watchdog_.rest(kLeaseLoop);
      controller::interruptible_sleep(time, std::move(stop));
      watchdog_.turn(kLeaseLoop);
    };
    return leader;
  }

  // On the elector's thread, every 2 s while it lasts: told once a minute, and what is new at once.
  void lease_failed(const kube::ApiError& error) {
    const auto now = std::chrono::steady_clock::now();
    const auto kind = std::pair(error.code, error.reason);
    if (kind == lease_failure_ && now - lease_failure_told_ < kTellAgain) return;
    lease_failure_ = kind;
    lease_failure_told_ = now;
    log_.line(Severity::kWarning, "lease not read or written", {{"error", to_text(error)}});
  }

  cluster::KubeOptions cluster_options() {
    return {.installation = options_.installation,
            .namespace_unread =
                [this](const std::string& doubt) {
                  log_.line(
                      Severity::kWarning, "namespace not read",
                      {{"error", doubt},
                       {"level", std::string(word(job::kPodSecurityLevels,
                                                       options_.installation.pod_security))}});
                },
            .reporter = options_.identity,
            .wake = [this](const std::string& key,
                           milliseconds delay) { queue_.add_after(key, delay); },
            .recorded = [this](const job::TrainingJob& before,
                               const job::Status& after) { recorded(before, after); },
            .ask =
                [this](const job::TrainingJob& job, const std::string& address) {
                  const int gang = job.status.workers > 0 ? job.status.attempt : -1;
                  const int port = job::ports_of(job).rank;
                  return poller_.ask(job.metadata.uid, cluster::key_of(job), gang, address,
                                     static_cast<std::uint16_t>(port));
                },
            .report = [this](kube::Json event) { events_.add(std::move(event)); }};
  }

  // A job whose namespace's pods are not listed yet comes again when they are.
  std::optional<milliseconds> reconcile(const std::string& key) {
    if (pods_.seen_version(key.substr(0, key.find('/'))) == 0) return std::nullopt;
    const Turn turn(watchdog_, "pass over " + key);
    const Job job = cluster_.read(key);
    if (!job) return std::nullopt;
    return reconciler_.reconcile(*job);
  }

  // Of a loop, until its end however it comes.
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

  void recorded(const job::TrainingJob& before, const job::Status& after) {
    if (after.phase == before.status.phase && after.attempt == before.status.attempt) return;
    Fields fields = {{"job", cluster::key_of(before)},
                     {"phase", job::to_text(after.phase)},
                     {"attempt", std::to_string(after.attempt)},
                     {"workers", std::to_string(after.workers)}};
    const auto& failure = after.last_failure;
    if (failure && failure != before.status.last_failure) {
      fields.emplace_back("cause", failure->reason);
      fields.emplace_back("pod", failure->pod);
      fields.emplace_back("why", failure->message);
    }
    log_.line(Severity::kInfo, "job changed", fields);
    count(before.status, after);
  }

  void count(const job::Status& before, const job::Status& after) {
    const auto restarted = [&](int job::Restarts::*cause, const char* name) {
      if (after.restarts.*cause > before.restarts.*cause) metrics_.count_restart(name);
    };
    restarted(&job::Restarts::failure, "failure");
    restarted(&job::Restarts::preemption, "preemption");
    restarted(&job::Restarts::node, "node");
    restarted(&job::Restarts::startup, "startup");
    restarted(&job::Restarts::resize, "resize");
    if (job::is_terminal(after)) metrics_.count_finished(job::to_text(after.phase));
  }

  // Watches and reconciles until asked to stop. Pods are listed after jobs, so that no job's status
  // knows more of its pods than we do.
  void work(std::stop_token stop) {
    std::jthread poller;
    if (options_.progress) poller = std::jthread([this](std::stop_token s) { poller_.run(s); });
    const std::jthread events(
        [this](std::stop_token s) { events_.run(s); });  // ends after all below
    std::vector<std::string> namespaces = options_.namespaces;
    if (namespaces.empty()) namespaces.emplace_back();
    std::deque<Watch<Job>> job_watches;
    std::deque<Watch<cluster::SeenPod>> pod_watches;
    for (const std::string& one : namespaces) watch_jobs(job_watches, one);
    for (std::size_t i = 0; i < namespaces.size(); ++i)
      watch_pods(pod_watches, namespaces[i], *job_watches[i].informer);
    if (!listed(job_watches, pod_watches, stop)) return;
    for (std::size_t i = 0; i < namespaces.size(); ++i)
      if (!pod_watches[i].informer->synced())
        log_.line(Severity::kWarning, "namespace is missing, or may not be watched",
                  {{"namespace", namespaces[i]}});
    ready_ = true;
    log_.line(Severity::kInfo, "ready",
              {{"jobs", std::to_string(jobs_.size())}, {"pods", std::to_string(pods_.size())}});
    controller_.run(stop);
    ready_ = false;
  }

  // One kind in one namespace.
  template <class T>
  struct Watch {
    controller::StoreSink<T> sink;
    std::unique_ptr<controller::Informer> informer;
    std::jthread thread;
  };

  void watch_jobs(std::deque<Watch<Job>>& watches, const std::string& name_space) {
    add_watch<Job>(watches, jobs_, cluster::kTrainingJobs, query_of(name_space), cluster::read_job,
                   [this](const kube::ObjectMeta& meta, const Job&) {
                     if (!jobs_.find(kube::key_of(meta))) forget(meta.uid);
                     queue_.add(kube::key_of(meta));
                   });
  }

  // Listed after the jobs of the same namespace.
  void watch_pods(std::deque<Watch<cluster::SeenPod>>& watches, const std::string& name_space,
                  const controller::Informer& jobs) {
    add_watch<cluster::SeenPod>(
        watches, pods_, kube::kPods, query_of(name_space, cluster::kJobLabel), cluster::read_pod,
        [this](const kube::ObjectMeta& meta, const cluster::SeenPod& pod) {
          cluster_.heard(meta, pod);
          queue_.add_after(pod.job_key, kPodChangesTogether);
        },
        &jobs, [this, name_space] { pods_listed(name_space); });
  }

  // Of a namespace that may have been missing until now.
  void pods_listed(const std::string& name_space) {
    if (ready_) log_.line(Severity::kInfo, "namespace is watched", {{"namespace", name_space}});
    for (const auto& entry : jobs_.entries())
      if (name_space.empty() || entry.meta.name_space == name_space)
        queue_.add(kube::key_of(entry.meta));
  }

  template <class T>
  void add_watch(
      std::deque<Watch<T>>& watches, controller::Store<T>& store, const kube::Resource& resource,
      const kube::ListQuery& query, typename controller::StoreSink<T>::Project project,
      typename controller::StoreSink<T>::Changed changed,
      const controller::Informer* before = nullptr, std::function<void()> on_synced = [] {}) {
    const std::string who =
        "watch of " + resource.plural + (query.name_space.empty() ? "" : " in " + query.name_space);
    controller::InformerOptions options;
    options.query = query;
    options.on_synced = std::move(on_synced);
    options.on_turn = [this, who] { watchdog_.turn(who); };
    options.on_error = [this, resource, query](const kube::ApiError& error) {
      Fields fields = {{"kind", resource.kind}, {"error", to_text(error)}};
      if (!query.name_space.empty()) fields.emplace_back("namespace", query.name_space);
      if (error.code == 404)  // of a whole kind
        fields.emplace_back("fix", "install its CRD: kubectl apply -f crds/");
      log_.line(Severity::kWarning, "watch failed", fields);
    };
    Watch<T>& watch = watches.emplace_back(
        controller::StoreSink<T>(store, query.name_space, std::move(project), std::move(changed)),
        nullptr, std::jthread());
    watch.informer = std::make_unique<controller::Informer>(client_, resource, options, watch.sink);
    watch.thread = std::jthread([this, &watch, before, who](std::stop_token stop) {
      if (before && !before->wait_synced(stop)) return;
      watch.informer->run(stop);
      watchdog_.rest(who);
    });
  }

  // Waits until every namespace is listed, or refused as one that is missing or that we may not
  // watch, and one is listed at least. False: stopped before.
  static bool listed(const std::deque<Watch<Job>>& jobs,
                     const std::deque<Watch<cluster::SeenPod>>& pods, std::stop_token stop) {
    for (const Watch<Job>& watch : jobs)
      if (!watch.informer->wait_tried(stop)) return false;
    for (std::size_t i = 0; i < jobs.size(); ++i)
      if (jobs[i].informer->synced() && !pods[i].informer->wait_tried(stop)) return false;
    const auto is_listed = [](const Watch<cluster::SeenPod>& watch) {
      return watch.informer->synced();
    };
    while (std::ranges::none_of(pods, is_listed) && !stop.stop_requested())
      controller::interruptible_sleep(kLookAgain, stop);
    return !stop.stop_requested();
  }

  void forget(const std::string& uid) {
    reconciler_.forget(uid);
    poller_.forget(uid);
  }

  // The store is counted when somebody asks, not with every change.
  std::string metrics_text() const {
    std::map<std::string, int> by_phase;
    for (const auto& entry : jobs_.entries()) ++by_phase[job::to_text(entry.value->status.phase)];
    metrics_.set_jobs(by_phase);
    metrics_.set_pods(pods_.size());
    metrics_.set_queue_depth(queue_.size());
    return metrics_.text();
  }

  const OperatorOptions& options_;
  const Log& log_;
  std::pair<int, std::string> lease_failure_;  // code and reason of the last that was told
  std::chrono::steady_clock::time_point lease_failure_told_;
  mutable controller::Metrics metrics_;
  controller::Watchdog watchdog_;
  std::stop_source calls_over_;
  kube::HttpTransport transport_;
  kube::HttpTransport lease_transport_;  // its own connection: renewals wait for nobody
  kube::Client client_;
  kube::Client event_client_;
  kube::Client lease_client_;
  controller::LeaderElector elector_;
  controller::WorkQueue queue_;
  cluster::JobStore jobs_;
  cluster::PodStore pods_;
  cluster::ProgressPoller poller_;
  cluster::EventQueue events_;
  cluster::KubeCluster cluster_;
  Reconciler reconciler_;
  controller::Controller controller_;
  std::atomic<bool> ready_ = false;
  std::atomic<bool> standing_by_ = false;
};

}  // namespace

int run_operator(const OperatorOptions& options) {
  // A few threads that wait need no heaps of their own.
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);  // fixed: a page of a list is given back once it is read
  contract::SignalQueue signals({SIGINT, SIGTERM});  // first: later threads inherit it
  kube::limit_http_threads(kHttpThreads);
  // The HTTP library reads the system's certificates for each connection, needed or not: 6 MiB, and
  // 0.3 s on a busy machine. An exec plug-in, which inherits this, may need them.
  if (!options.config.ca_pem.empty() && !options.config.exec)
    setenv("SSL_CERT_FILE", "/dev/null", 1);
  const Log log(options.log_json);
  Operator running(options, log);
  std::optional<contract::HttpEndpoint> endpoint;
  if (!options.metrics_host.empty()) {
    endpoint.emplace(options.metrics_host, options.metrics_port,
                     [&](const std::string& path) { return running.serve(path); });
    log.line(Severity::kInfo, "metrics", {{"port", std::to_string(endpoint->port())}});
  }
  log.line(Severity::kInfo, "watching", {{"server", options.config.server}});
  if (options.config.insecure || options.config.server.starts_with("http://"))
    log.line(Severity::kWarning, "the server is not checked: anybody could pose as it");
  std::packaged_task<bool(std::stop_token)> task(
      [&](std::stop_token stop) { return running.run(std::move(stop)); });
  std::future<bool> end = task.get_future();
  std::jthread leader(std::move(task));
  const auto ended = [&](milliseconds time) {
    return end.wait_for(time) == std::future_status::ready;
  };
  while (!ended(milliseconds(0)) && !signals.next())
    contract::wait_readable({signals.descriptor()}, milliseconds(200));
  leader.request_stop();
  if (!ended(kAnswersWithin)) running.give_up_calls();
  if (!ended(kLeaseReleasedWithin)) running.give_up_lease();
  const bool kept = end.get();
  log.line(kept ? Severity::kInfo : Severity::kError, kept ? "stopped" : "lease lost");
  return static_cast<int>(kept ? ExitCode::kDone : ExitCode::kPeerLost);
}

}  // namespace coxswain
