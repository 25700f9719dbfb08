#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "operator/cluster/kube_view.h"
#include "tests/simulation/api_server.h"
#include "tests/simulation/laws.h"
#include "tests/simulation/world.h"

namespace coxswain::test {

// Who sends a request.
struct Caller {
  bool late = false;  // another operator leads by now: what it makes is fenced by its attempt
  const cluster::JobStore* jobs = nullptr;  // what it knows
  job::Seconds skew{0};                     // of its clock, by which it dates what it stores
};

// What must hold at each change that an operator makes to the API server's objects, over all of
// history. Statuses are judged by the planner's Laws, one set for each job's uid. Keeps the first
// breach.
class HistoryLaws {
 public:
  explicit HistoryLaws(const ApiServer& server) : server_(server) {}

  Caller caller;

  void before_change(const std::string& resource, const Object& before, const Object& after);
  void disturbed(const Json& pod);  // by users or the cluster
  void demand(bool law, const std::string& text);

  std::optional<std::string> breach() const;
  const std::map<std::string, int>& effects() const { return effects_; }

 private:
  struct Life {
    explicit Life(job::TrainingJob job) : world(std::move(job), 0) {}
    World world;
    Laws laws{world};
  };
  Life& life_of(const std::string& uid);
  void hear_of_pods();
  Object job_with(const std::string& uid) const;

  void before_status(const Object& before, const Object& after);
  void before_create(const std::string& resource, const Json& object);
  void before_pod(const Json& pod, const Json& owner);
  void before_pod_group(const Object& before, const Object& after);
  void before_pod_leaves(const Json& pod, bool at_once);
  void check_files(const Json& pod, const job::TrainingJob& job);

  const ApiServer& server_;
  std::map<std::string, std::unique_ptr<Life>> lives_;  // by uid
  std::map<std::string, int> effects_;                  // "create pods/a" -> how often
  std::map<std::string, bool> late_pods_;               // by uid of the owner, and name
  std::size_t heard_ = 0;
  std::optional<std::string> breach_;
};

}  // namespace coxswain::test
