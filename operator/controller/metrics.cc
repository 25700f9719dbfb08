#include "operator/controller/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>
#include <sstream>

namespace coxswain::controller {

namespace {

using prometheus::Family;

// Seconds. From a pass without calls (1 ms) over the goals for a pass and for a queue (10 ms to
// 1 s) to a client's last try (30 s) and beyond.
const prometheus::Histogram::BucketBoundaries kSeconds{
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

// How a call's resource tells a watch from a list; its time is not that of an answer.
constexpr const char* kWatch = "/watch";

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

const char* verb_of(kube::Method method) {
  switch (method) {
    case kube::Method::kGet:
      return "get";
    case kube::Method::kPost:
      return "create";
    case kube::Method::kPut:
      return "update";
    case kube::Method::kPatch:
      return "patch";
    case kube::Method::kDelete:
      return "delete";
  }
  return "other";
}

// What a server can make up is bounded.
std::string code_of(int code) {
  return code == 0 || (code >= 100 && code < 600) ? std::to_string(code) : "other";
}

Family<prometheus::Counter>& counter(prometheus::Registry& registry, const std::string& name,
                                     const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Family<prometheus::Gauge>& gauge(prometheus::Registry& registry, const std::string& name,
                                 const std::string& help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

Family<prometheus::Histogram>& histogram(prometheus::Registry& registry, const std::string& name,
                                         const std::string& help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace

// Those without labels exist from the start, so that a rate over them has its first zero.
struct Metrics::Families {
  prometheus::Registry registry;
  Family<prometheus::Counter>& requests =
      counter(registry, "coxswain_api_requests_total", "Calls of the API server, by their answer");
  Family<prometheus::Histogram>& request_seconds =
      histogram(registry, "coxswain_api_request_seconds", "Time until the answer of a call");
  Family<prometheus::Counter>& reconciles =
      counter(registry, "coxswain_reconcile_total", "Passes over a job");
  prometheus::Counter& succeeded = reconciles.Add({{"result", "success"}});
  prometheus::Counter& failed = reconciles.Add({{"result", "error"}});
  prometheus::Histogram& reconcile_seconds =
      histogram(registry, "coxswain_reconcile_seconds", "Time of a pass over a job")
          .Add({}, kSeconds);
  prometheus::Histogram& reconcile_cpu_seconds =
      histogram(registry, "coxswain_reconcile_cpu_seconds",
                "Processor time of a pass over a job, without its waits")
          .Add({}, kSeconds);
  prometheus::Histogram& queue_wait_seconds =
      histogram(registry, "coxswain_queue_wait_seconds", "Time from due to begun")
          .Add({}, kSeconds);
  prometheus::Gauge& queue_depth =
      gauge(registry, "coxswain_queue_depth", "Jobs due for a pass").Add({});
  prometheus::Gauge& is_leader =
      gauge(registry, "coxswain_is_leader", "1 while this operator leads").Add({});
  Family<prometheus::Gauge>& jobs = gauge(registry, "coxswain_jobs", "Jobs by phase");
  prometheus::Gauge& pods = gauge(registry, "coxswain_pods", "Pods of jobs").Add({});
  Family<prometheus::Counter>& restarts =
      counter(registry, "coxswain_restarts_total", "New gangs of jobs, by cause");
  Family<prometheus::Counter>& finished =
      counter(registry, "coxswain_jobs_finished_total", "Jobs that ended, by result");
  prometheus::Counter& dropped_events =
      counter(registry, "coxswain_events_dropped_total", "Events that could not be reported")
          .Add({});

  std::mutex mutex;
  std::map<std::string, prometheus::Gauge*> phases;  // seen so far; guarded by mutex
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

void Metrics::count_call(const kube::Call& call) {
  const std::string resource = call.resource.substr(0, call.resource.find(kWatch));
  const std::string verb = resource == call.resource ? verb_of(call.method) : "watch";
  families_->requests.Add({{"verb", verb}, {"resource", resource}, {"code", code_of(call.code)}})
      .Increment();
  families_->request_seconds.Add({{"verb", verb}}, kSeconds).Observe(seconds(call.duration));
}

void Metrics::count_reconcile(std::chrono::nanoseconds wall, std::chrono::nanoseconds cpu,
                              bool failed) {
  (failed ? families_->failed : families_->succeeded).Increment();
  families_->reconcile_seconds.Observe(seconds(wall));
  families_->reconcile_cpu_seconds.Observe(seconds(cpu));
}

void Metrics::count_queue_wait(std::chrono::nanoseconds wait) {
  families_->queue_wait_seconds.Observe(seconds(wait));
}

void Metrics::set_queue_depth(std::size_t depth) {
  families_->queue_depth.Set(static_cast<double>(depth));
}

void Metrics::set_leader(bool leads) { families_->is_leader.Set(leads ? 1 : 0); }

void Metrics::set_jobs(const std::map<std::string, int>& by_phase) {
  const std::lock_guard lock(families_->mutex);
  for (const auto& [phase, count] : by_phase)
    families_->phases.try_emplace(phase, &families_->jobs.Add({{"phase", phase}}));
  for (const auto& [phase, gauge] : families_->phases) {
    const auto count = by_phase.find(phase);
    gauge->Set(count == by_phase.end() ? 0 : count->second);
  }
}

void Metrics::set_pods(std::size_t count) { families_->pods.Set(static_cast<double>(count)); }

void Metrics::count_restart(const std::string& cause) {
  families_->restarts.Add({{"cause", cause}}).Increment();
}

void Metrics::count_finished(const std::string& result) {
  families_->finished.Add({{"result", result}}).Increment();
}

void Metrics::count_dropped_event() { families_->dropped_events.Increment(); }

std::string Metrics::text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families_->registry.Collect());
  return out.str();
}

}  // namespace coxswain::controller
