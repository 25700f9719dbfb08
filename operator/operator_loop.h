#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/cluster/kube_cluster.h"
#include "operator/controller/controller.h"
#include "operator/controller/informer.h"
#include "operator/controller/watchdog.h"
#include "operator/log.h"
#include "operator/reconciler.h"

namespace coxswain {

struct LoopOptions {
  std::vector<std::string> namespaces = {};  // to watch; empty: all of them
  int workers = 8;                           // passes at once
  cluster::KubeOptions cluster = {};         // its `wake` is the loop's; its clock is everybody's
  std::function<void(const std::string& uid)> forgotten = [](const std::string&) {};  // it is gone
  std::function<void(Severity, std::string_view message, const Fields&)> log =
      [](Severity, std::string_view, const Fields&) {};
};

// Resource. What an operator sees, decides and does, but for its connections and threads: watches
// fill the stores and wake keys, passes take keys and reconcile them. It starts nothing by itself.
// Threads carry its watches and passes, blocked by each call; a simulation does so one at a time,
// and lets others go on while a call hangs.
class OperatorLoop {
 public:
  // One kind in one namespace.
  struct Watch {
    std::string name_space;        // empty: all
    std::string who;               // "watch of pods in NS"
    const Watch* after = nullptr;  // whose list comes first
    std::unique_ptr<controller::ObjectSink> sink;
    std::unique_ptr<controller::Informer> informer;

    bool may_begin() const { return !after || after->informer->synced(); }
  };

  // All must outlive this.
  OperatorLoop(kube::Client& client, LoopOptions options, controller::Metrics& metrics,
               controller::Watchdog& watchdog);

  // Pods are listed after jobs, so that no job's status knows more of its pods than we do.
  std::deque<Watch>& watches() { return watches_; }
  void carry(Watch& watch, std::stop_token stop);  // on a thread of its own, until asked to stop

  bool listed() const;  // of one namespace at least
  // Waits until every namespace is listed, or refused as one that is missing or that we may not
  // watch, and one is listed at least. False: stopped before.
  bool wait_listed(std::stop_token stop);
  bool ready() const { return ready_; }  // passes are made

  void carry_passes(std::stop_token stop);    // on threads of its own, until asked to stop
  bool pass() { return controller_.turn(); }  // one; false: no key is due
  void add(const std::string& key) { queue_.add(key); }

  const cluster::JobStore& jobs() const { return jobs_; }
  const cluster::PodStore& pods() const { return pods_; }
  const controller::WorkQueue& queue() const { return queue_; }

 private:
  cluster::KubeOptions with_wake(cluster::KubeOptions options);
  void watch_jobs(const std::string& name_space);
  void watch_pods(const std::string& name_space, const Watch& jobs);
  void add_watch(const kube::Resource& resource, const kube::ListQuery& query,
                 std::unique_ptr<controller::ObjectSink> sink, const Watch* after,
                 std::function<void()> on_synced);
  void pods_listed(const std::string& name_space);
  void forget(const std::string& uid);
  std::optional<std::chrono::milliseconds> reconcile(const std::string& key);

  kube::Client& client_;
  const LoopOptions options_;
  controller::Watchdog& watchdog_;
  controller::WorkQueue queue_;
  cluster::JobStore jobs_;
  cluster::PodStore pods_;
  cluster::KubeCluster cluster_;
  Reconciler reconciler_;
  controller::Controller controller_;
  std::deque<Watch> watches_;
  std::atomic<bool> ready_ = false;
};

}  // namespace coxswain
