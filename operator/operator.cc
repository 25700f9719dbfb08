#include "operator/operator.h"

#include <malloc.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <thread>

#include "operator/cluster/event_queue.h"
#include "operator/cluster/progress_poller.h"
#include "operator/controller/interruptible_sleep.h"
#include "operator/controller/leader_elector.h"
#include "operator/job/roles.h"
#include "operator/job/words.h"
#include "operator/kube/http_transport.h"
#include "operator/log.h"
#include "operator/operator_loop.h"
#include "trainer/contract/error.h"
#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/http_endpoint.h"

namespace coxswain {

namespace {

using std::chrono::milliseconds;

constexpr int kHttpThreads = 1;  // as fast as eight
// How long calls under way may take once we are asked to stop.
constexpr milliseconds kLeavesWithin{2500};
constexpr milliseconds kLeaseReleasedWithin{1000};
constexpr std::chrono::minutes kTellAgain{1};
constexpr const char* kLeaseLoop = "renewal of the lease";
constexpr milliseconds kEventWithin{2000};  // a try; an event is worth two

// Most of a pod's bytes, and nobody here reads them. Of no other kind does anybody either.
const kube::LeftOut kUnread{
    {"metadata", "managedFields"}, {"spec", "containers"}, {"spec", "initContainers"}};

// The threads and connections of an operator, in the order in which they depend on what is above.
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
                 .news = [this](const std::string& key) { loop_.add(key); }}),
        events_({.send =
                     [this](const kube::Json& event) {
                       const std::string name_space = kube::meta_of(event).name_space;
                       return event_client_
                           .create(kube::kEvents, name_space, event, kube::Extent::kMetadata)
                           .ok();
                     },
                 .dropped = [this] { metrics_.count_dropped_event(); }}),
        loop_(client_, loop_options(), metrics_, watchdog_) {}

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
      if (loop_.ready() || standing_by_) return contract::HttpResponse{.body = "ok\n"};
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

  LoopOptions loop_options() {
    return {.namespaces = options_.namespaces,
            .workers = options_.workers,
            .cluster = cluster_options(),
            .forgotten = [this](const std::string& uid) { poller_.forget(uid); },
            .log = [this](Severity severity, std::string_view message,
                          const Fields& fields) { log_.line(severity, message, fields); }};
  }

  cluster::KubeOptions cluster_options() {
    return {.installation = options_.installation,
            .namespace_unread =
                [this](const std::string& doubt) {
                  log_.line(Severity::kWarning, "namespace not read",
                            {{"error", doubt},
                             {"level", std::string(word(options_.installation.pod_security))}});
                },
            .reporter = options_.identity,
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
    const auto restarted = [&](int job::Restarts::* cause, const char* name) {
      if (after.restarts.*cause > before.restarts.*cause) metrics_.count_restart(name);
    };
    restarted(&job::Restarts::failure, "failure");
    restarted(&job::Restarts::preemption, "preemption");
    restarted(&job::Restarts::node, "node");
    restarted(&job::Restarts::startup, "startup");
    restarted(&job::Restarts::resize, "resize");
    if (job::is_terminal(after)) metrics_.count_finished(job::to_text(after.phase));
  }

  // Watches and reconciles until asked to stop.
  void work(std::stop_token stop) {
    std::jthread poller;
    if (options_.progress) poller = std::jthread([this](std::stop_token s) { poller_.run(s); });
    const std::jthread events(
        [this](std::stop_token s) { events_.run(s); });  // ends after all below
    std::vector<std::jthread> watches;
    for (OperatorLoop::Watch& watch : loop_.watches())
      watches.emplace_back([this, &watch](std::stop_token s) { loop_.carry(watch, s); });
    if (loop_.wait_listed(stop)) loop_.carry_passes(stop);
  }

  // The store is counted when somebody asks, not with every change.
  std::string metrics_text() const {
    std::map<std::string, int> by_phase;
    for (const auto& job : loop_.jobs().entries())
      ++by_phase[job::to_text(job.value->status.phase)];
    metrics_.set_jobs(by_phase);
    metrics_.set_pods(loop_.pods().size());
    metrics_.set_queue_depth(loop_.queue().size());
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
  cluster::ProgressPoller poller_;
  cluster::EventQueue events_;
  OperatorLoop loop_;
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
  if (!ended(kLeavesWithin)) running.give_up_calls();
  if (!ended(kLeaseReleasedWithin)) running.give_up_lease();
  const bool kept = end.get();
  log.line(kept ? Severity::kInfo : Severity::kError, kept ? "stopped" : "lease lost");
  return static_cast<int>(kept ? ExitCode::kDone : ExitCode::kPeerLost);
}

}  // namespace coxswain
