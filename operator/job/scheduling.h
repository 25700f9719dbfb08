#pragma once

#include <map>
#include <string>

#include "operator/job/plan.h"
#include "operator/job/training_job.h"

// What a gang scheduler is told of a job, and when it is told no more.
namespace coxswain::job {

// The object that makes one gang of the recorded attempt's pods.
struct PodGroup {
  std::string api_version;
  std::string name;  // <job>
  Json spec;
};
PodGroup pod_group(const TrainingJob& job);

std::string pod_group_name(const TrainingJob& job);

// What each pod carries for its scheduler; the template's own words go before `scheduler`.
struct PodMarks {
  std::string scheduler;       // empty: the cluster's default
  std::string priority_class;  // empty: none
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  Json affinity;  // a preferred one of pods; null: none
};
PodMarks pod_marks(const TrainingJob& job);

// Deletes the group of pods that are gone. The plan's status forgets it in the same pass: that is
// stored only once it is gone.
void drop_pod_group(Plan& plan);

}  // namespace coxswain::job
