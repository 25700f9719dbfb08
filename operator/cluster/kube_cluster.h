#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "operator/cluster/cluster.h"
#include "operator/cluster/namespace_levels.h"
#include "operator/cluster/parallel.h"
#include "operator/controller/store.h"
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

using SteadyTime = std::chrono::steady_clock::time_point;

struct KubeOptions {
  job::Installation installation;  // its level: of namespaces that have none
  // A namespace can't be read, and has that level until it can.
  std::function<void(const std::string& doubt)> namespace_unread = [](const std::string&) {};
  std::string reporter;  // who reports events: the pod's name
  int parallel_calls = 8;
  // Plan the job with this key again, in a while.
  std::function<void(const std::string& key, std::chrono::milliseconds)> wake;
  // A status was stored.
  std::function<void(const job::TrainingJob& before, const job::Status& after)> recorded;
  // What rank 0 said last; it can be asked at `address` (empty: not now).
  std::function<contract::ProgressDocument(const job::TrainingJob&, const std::string& address)>
      ask;
  std::function<void(kube::Json event)> report;  // must not wait
  std::function<std::chrono::system_clock::time_point()> clock = std::chrono::system_clock::now;
  // For how long something has lasted: clocks of other machines, and steps of ours, don't count.
  std::function<SteadyTime()> steady = std::chrono::steady_clock::now;
};

std::string key_of(const job::TrainingJob& job);  // "NS/NAME"

// Resource. Jobs as pods behind an API server. Knows what is there from two stores, which informers
// fill and its own writes advance. Thread-safe for different jobs.
class KubeCluster : public Cluster {
 public:
  // Everything must outlive this. The stores hold jobs and pods of the same namespaces; pods were
  // listed after jobs.
  KubeCluster(kube::Client& client, JobStore& jobs, PodStore& pods, KubeOptions options);

  // The job as it must be read before it is planned: from the store, or at its source where the
  // store may be behind. Null: it is gone. Throws Error.
  Job read(const std::string& key);

  // To be told of every pod that a watch brings: one that failed may be gone at the next look.
  void heard(const kube::ObjectMeta& meta, const SeenPod& pod);

  job::Observed observe(const job::TrainingJob& job) override;
  bool record(const job::TrainingJob& job, const job::Status& status,
              const std::vector<job::Event>& events) override;
  void apply(const job::TrainingJob& job, std::span<const job::Action> actions) override;

 private:
  // How an action went.
  struct Done {};
  struct Wait {                                   // something is in the way, and on its way out
    std::optional<job::Predecessor> predecessor;  // if it is not ours
  };
  using Outcome = std::variant<Done, Wait, job::Rejection, kube::ApiError>;

  // Actions of one kind that fail without being refused: until they succeed, or nobody has tried
  // them for a while.
  struct Trouble {
    std::size_t kind = 0;  // of the action
    int times = 0;         // in a row
    job::Rejection words;
    SteadyTime until;
  };

  // What is remembered of a job between passes. It saves work; right and wrong don't depend on it,
  // but for `stale`.
  struct Memory {
    std::string uid;
    bool stale = false;         // the store may be behind what is stored: read at the source
    std::uint64_t written = 0;  // the newest version that we wrote
    std::map<std::string, job::Worker> failed;  // by uid; of this attempt and the one before
    std::map<std::string, SteadyTime> leaving;  // by uid: when it was first seen to leave
    std::string keys_secret;                    // that was made
    std::optional<job::Rejection> rejection;
    int rejected_generation = 0;
    std::optional<job::Predecessor> predecessor;
    std::optional<Trouble> trouble;
    std::chrono::system_clock::time_point retry_at;  // creates rest until then
  };

  Memory recall(const job::TrainingJob& job);
  void change(const job::TrainingJob& job, const std::function<void(Memory&)>& edit);
  void list_pods(const job::TrainingJob& job);
  job::Installation installation_for(const job::TrainingJob& job);
  std::vector<job::Worker> failed_and_gone(const job::TrainingJob& job,
                                           const std::vector<job::Worker>& present);
  void date_departures(const job::TrainingJob& job, job::Observed& observed);
  bool waits_for_predecessor(const job::TrainingJob& job, const job::Action& action,
                             const std::vector<Outcome>& outcomes);
  std::optional<job::Rejection> trouble_of(const job::TrainingJob& job, const Memory& memory);
  void enter_trouble(const job::TrainingJob& job, const job::Action& action,
                     const kube::ApiError& error);
  void forget_trouble(const job::TrainingJob& job, const job::Action& action);
  bool creates_rest(const job::TrainingJob& job);
  void conclude(const job::TrainingJob& job, std::span<const job::Action> actions,
                const std::vector<Outcome>& outcomes);

  Outcome carry_out(const job::TrainingJob& job, const job::Action& action,
                    const std::string& config_map);
  Outcome ensure(const job::TrainingJob& job, job::ObjectKind kind);
  Outcome ensure(const job::TrainingJob& job, const kube::Resource& resource,
                 const kube::Json& wanted);
  Outcome ensure_keys(const job::TrainingJob& job);
  std::variant<kube::Json, Outcome> make_or_find(const job::TrainingJob& job,
                                                 const kube::Resource& resource,
                                                 const kube::Json& wanted);
  Outcome create(const job::TrainingJob& job, const job::WorkerId& id,
                 const std::string& config_map);
  Outcome remove(const job::TrainingJob& job, const job::DeleteWorker& action);
  Outcome remove(const job::TrainingJob& job, const job::DeletePodGroup& action);
  Outcome remove(const job::TrainingJob& job);
  void enter_pod(const kube::Json& pod);

  kube::Client& client_;
  JobStore& jobs_;
  PodStore& pods_;
  KubeOptions options_;
  NamespaceLevels levels_;
  Parallel parallel_;
  std::mutex mutex_;
  std::map<std::string, Memory> memory_;  // by NS/NAME; guarded by mutex_
};

}  // namespace coxswain::cluster
