#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "operator/cluster/cluster.h"
#include "operator/cluster/judge.h"
#include "operator/cluster/kube_view.h"
#include "operator/cluster/parallel.h"

namespace coxswain::cluster {

// Resource. Jobs as pods behind an API server: what is done about them; what is seen is the view's.
// Thread-safe for different jobs.
class KubeCluster : public Cluster {
 public:
  // Everything must outlive this; see KubeView.
  KubeCluster(kube::Client& client, JobStore& jobs, PodStore& pods, KubeOptions options)
      : client_(client),
        options_(std::move(options)),
        view_(client, jobs, pods, options_),
        parallel_(options_.parallel_calls) {}

  // The job as it must be read before it is planned: from the store, or at its source where the
  // store may be behind. Null: it is gone. Throws Error.
  Job read(const std::string& key) { return view_.read(key); }

  // To be told of every pod that a watch brings: one that failed may be gone at the next look.
  void heard(const kube::ObjectMeta& meta, const SeenPod& pod) { view_.heard(meta, pod); }

  job::Observed observe(const job::TrainingJob& job) override { return view_.observe(job); }
  bool record(const job::TrainingJob& job, const job::Status& status,
              const std::vector<job::Event>& events) override;
  void apply(const job::TrainingJob& job, std::span<const job::Action> actions) override;

 private:
  bool creates_rest(const job::TrainingJob& job);
  Outcome carry_out(const job::TrainingJob& job, const job::Action& action,
                    const std::string& config_map);
  Outcome ensure(const job::TrainingJob& job, job::ObjectKind kind);
  Outcome ensure(const job::TrainingJob& job, const kube::Resource& resource,
                 const kube::Json& wanted);
  Outcome ensure_keys(const job::TrainingJob& job);
  Outcome create(const job::TrainingJob& job, const job::WorkerId& id,
                 const std::string& config_map);
  Outcome remove(const job::TrainingJob& job, const job::DeleteWorker& action);
  Outcome remove(const job::TrainingJob& job, const job::DeletePodGroup& action);
  Outcome remove(const job::TrainingJob& job);

  // What became of a create, and the object that is there now.
  struct Made {
    Outcome outcome;
    Answer present;
  };
  Made make(const Create& create, const kube::Json& wanted);

  // What the calls of one apply() came to, for the next passes.
  void conclude(const job::TrainingJob& job, std::span<const job::Action> actions,
                const std::vector<Outcome>& outcomes);
  bool waits_for_predecessor(const job::TrainingJob& job, const job::Action& action,
                             const std::vector<Outcome>& outcomes);
  void enter_trouble(const job::TrainingJob& job, const job::Action& action,
                     const kube::ApiError& error);
  void forget_trouble(const job::TrainingJob& job, const job::Action& action);

  kube::Client& client_;
  const KubeOptions options_;
  KubeView view_;
  Parallel parallel_;
};

}  // namespace coxswain::cluster
