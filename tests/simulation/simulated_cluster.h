#pragma once

#include <span>
#include <vector>

#include "operator/cluster/cluster.h"
#include "tests/simulation/laws.h"
#include "tests/simulation/world.h"

namespace coxswain::test {

// The world through the eyes of one reconciler: its caches of the job and of the pods lag, its
// calls get lost, or lose their answers.
class SimulatedCluster : public cluster::Cluster {
 public:
  SimulatedCluster(World& world, Laws& laws) : world_(world), laws_(laws) { refresh(); }

  bool leads = true;
  bool checks_version = true;  // false: a broken client, which a mutant needs
  int writes = 0;              // that reached the API server

  const job::TrainingJob& cached_job() const { return job_; }
  void refresh();          // as a new leader does
  void maybe_hear_news();  // the watch delivers, or lags

  job::Observed observe(const job::TrainingJob& job) override;
  bool record(const job::TrainingJob& job, const job::Status& status,
              const std::vector<job::Event>& events) override;
  void apply(const job::TrainingJob& job, std::span<const job::Action> actions) override;

 private:
  enum class Call { kDone, kLost, kAnswerLost };
  Call next_call();
  void trace_record(const job::Status& status) const;
  void carry_out(const job::Action& action);

  World& world_;
  Laws& laws_;
  job::TrainingJob job_;
  std::vector<job::Worker> workers_;
  std::vector<job::Worker> planned_from_;  // what this pass observed
  bool unsure_ = false;  // whether the last write is stored: the job must be read at its source
};

}  // namespace coxswain::test
