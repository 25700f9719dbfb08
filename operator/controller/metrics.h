#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "operator/kube/client.h"

namespace coxswain::controller {

// Resource. Everything the operator counts, in Prometheus' text format. Labels are bounded: never a
// job's or a namespace's name. Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // coxswain_api_requests_total{verb,resource,code}, coxswain_api_request_seconds{verb}
  void count_call(const kube::Call& call);
  // coxswain_reconcile_total{result}, coxswain_reconcile_seconds, and
  // coxswain_reconcile_cpu_seconds: a pass without its waits
  void count_reconcile(std::chrono::nanoseconds wall, std::chrono::nanoseconds cpu, bool failed);
  // coxswain_queue_wait_seconds: from due to begun
  void count_queue_wait(std::chrono::nanoseconds wait);
  void set_queue_depth(std::size_t depth);                    // coxswain_queue_depth
  void set_leader(bool leads);                                // coxswain_is_leader
  void set_jobs(const std::map<std::string, int>& by_phase);  // coxswain_jobs{phase}
  void set_pods(std::size_t count);                           // coxswain_pods
  void count_restart(const std::string& cause);               // coxswain_restarts_total{cause}
  void count_finished(const std::string& result);  // coxswain_jobs_finished_total{result}
  void count_dropped_event();                      // coxswain_events_dropped_total

  std::string text() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace coxswain::controller
