#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/cluster/kube_memory.h"
#include "operator/cluster/namespace_levels.h"
#include "operator/controller/store.h"
#include "operator/job/observed.h"
#include "operator/kube/client.h"

namespace coxswain::cluster {

inline const kube::Resource kTrainingJobs{"coxswain.dev", "v1alpha1", "trainingjobs",
                                          "TrainingJob"};

// What is kept of a pod: little, whatever its size is.
struct SeenPod {
  job::Worker worker;
  std::string job_key;  // NS/NAME of the job that its label names
  std::string address;  // empty: none yet
};
std::optional<SeenPod> read_pod(const kube::Json& pod);

using Job = std::shared_ptr<const job::TrainingJob>;
// A job that can't be read whole has that as its first problem: it is Invalid, and harms no other.
Job read_job(const kube::Json& object);

using JobStore = controller::Store<Job>;
using PodStore = controller::Store<SeenPod>;

struct KubeOptions {
  job::Installation installation;  // its level: of namespaces that have none
  // A namespace can't be read, and has that level until it can.
  std::function<void(const std::string& doubt)> namespace_unread = [](const std::string&) {};
  std::string reporter;  // who reports events: the pod's name
  int parallel_calls = 8;
  // Plan the job with this key again, in a while.
  std::function<void(const std::string& key, std::chrono::milliseconds)> wake = {};
  // A status was stored.
  std::function<void(const job::TrainingJob& before, const job::Status& after)> recorded;
  // What rank 0 said last; it can be asked at `address` (empty: not now).
  std::function<contract::ProgressDocument(const job::TrainingJob&, const std::string& address)>
      ask;
  std::function<void(kube::Json event)> report;  // must not wait
  // now: for how long something has lasted, where clocks of other machines and steps of ours don't
  // count.
  kube::Clock clock = {};
};

// Ends the pass: it is made again later.
[[noreturn]] void give_up(const job::TrainingJob& job, const std::string& what,
                          const kube::ApiError& error);

// Resource. What is known of jobs and their pods: from two stores, which informers fill and our own
// writes advance, and from what is remembered. Thread-safe for different jobs.
class KubeView {
 public:
  // Everything must outlive this. The stores hold jobs and pods of the same namespaces; pods were
  // listed after jobs.
  KubeView(kube::Client& client, JobStore& jobs, PodStore& pods, const KubeOptions& options);

  // As KubeCluster says.
  Job read(const std::string& key);
  job::Observed observe(const job::TrainingJob& job);
  void heard(const kube::ObjectMeta& meta, const SeenPod& pod);

  // Answers to our writes.
  void enter_job(const kube::Json& job);
  void enter_pod(const kube::Json& pod);
  void pod_is_gone(const job::TrainingJob& job, const std::string& uid);  // whatever the watch said

  KubeMemory& memory() { return memory_; }

 private:
  void list_pods(const job::TrainingJob& job);
  job::Installation installation_for(const job::TrainingJob& job);
  void date_departures(const job::TrainingJob& job, job::Observed& observed);
  std::vector<job::Worker> failed_and_gone(const job::TrainingJob& job,
                                           const std::vector<job::Worker>& present);
  std::optional<job::Rejection> trouble_of(const job::TrainingJob& job, const JobMemory& memory);

  kube::Client& client_;
  JobStore& jobs_;
  PodStore& pods_;
  const KubeOptions& options_;
  NamespaceLevels levels_;
  KubeMemory memory_;
};

}  // namespace coxswain::cluster
