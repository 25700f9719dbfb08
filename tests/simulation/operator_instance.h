#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/cluster/kube_cluster.h"
#include "operator/controller/store_sink.h"
#include "operator/kube/client.h"
#include "operator/reconciler.h"
#include "tests/simulation/fault_plan.h"
#include "tests/simulation/scene.h"

namespace coxswain::test {

// Ends an operator where it stands: nobody between here and the test catches it.
struct Crash {};

// Between the operators of one run and the API server: counts their requests, and lets the plan's
// fault happen.
struct Wire {
  Scene& scene;
  FaultPlan plan;
  Mutation mutation = Mutation::kNone;
  bool trace = false;
  bool parameter_server = false;
  job::Seconds skew{0};  // of the operator's clock
  int requests = 0;
  int writes = 0;                              // requests that would change something
  std::vector<std::string> log = {};           // of all requests
  std::function<void()> take_over = {};        // another operator comes and leads for a while
  std::optional<job::Time> silent_until = {};  // of the watch in the plan
  bool happened = false;                       // the fault
};

// One operator's connection.
class Link : public kube::Transport {
 public:
  explicit Link(Wire& wire) : wire_(wire) {}

  bool holds_lease = true;
  bool must_crash = false;  // as soon as it does anything
  const cluster::JobStore* jobs = nullptr;
  std::uint64_t pods_seen = 0;  // the version up to which its watch of pods told

  kube::Response send(const kube::Request& request) override;
  kube::Response stream(const kube::Request& request, std::stop_token stop,
                        const std::function<bool(std::string_view)>& on_data) override;

 private:
  kube::Response forward(const kube::Request& request);
  kube::Response with_fault(const kube::Request& request, bool first_try);
  kube::Request mutated(kube::Request request) const;
  kube::Response mutated(const kube::Request& request, kube::Response response) const;
  [[noreturn]] void crash();

  Wire& wire_;
  bool dead_ = false;
  bool late_ = false;
  std::string afflicted_;  // the request whose tries are answered with the plan's error
  int tries_left_ = 0;
};

// The production operator, but for its threads: client, stores, sinks, cluster and reconciler, with
// a queue in simulated time.
class OperatorInstance {
 public:
  explicit OperatorInstance(Wire& wire);

  // Hears what the watches tell, and works until nothing is due. Throws Crash. False: there was
  // more to do than there can be.
  bool step();

 private:
  struct Watch {
    std::string resource;
    std::size_t next = 0;  // in the history
    int ordinal = 0;       // of that revision among its kind
    controller::ObjectSink* sink = nullptr;
  };

  bool list_all();
  bool list(Watch& watch);
  void hear(Watch& watch);
  bool is_silent(Watch& watch);
  void tell(Watch& watch, const Revision& revision);
  void add(const std::string& key, std::chrono::milliseconds delay);
  void work(const std::string& key);

  Wire& wire_;
  Link link_;
  kube::Client client_;
  cluster::JobStore jobs_;
  cluster::PodStore pods_;
  cluster::KubeCluster cluster_;
  Reconciler reconciler_;
  controller::StoreSink<cluster::Job> job_sink_;
  controller::StoreSink<cluster::SeenPod> pod_sink_;
  Watch job_watch_, pod_watch_;
  std::map<std::string, job::Time> due_;  // by key
  bool listed_ = false;
};

}  // namespace coxswain::test
