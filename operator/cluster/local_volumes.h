#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "operator/job/training_job.h"

// Where a job's volumes lie when it runs as local processes.
namespace coxswain::cluster {

// Value. Directories given by hand: "data", "checkpoints".
using VolumeDirectories = std::map<std::string, std::filesystem::path>;

// Value. Absolute directories, each there; empty: the job has no such volume.
struct LocalVolumes {
  std::filesystem::path data;
  std::filesystem::path checkpoints;
  bool operator==(const LocalVolumes&) const = default;
};

// The job with the volumes given by hand in place of its own. Throws Error(2) for one that it
// lacks.
job::TrainingJob with_volumes(job::TrainingJob job, const VolumeDirectories& given);

// A claim is ./coxswain-volumes/<claim name>, a hostPath itself, an emptyDir is in the run
// directory; they are made when missing. Throws Error(65) for any other kind, saying how to map it,
// and Error(74) when one can't be made.
LocalVolumes local_volumes(const job::TrainingJob& job, const std::filesystem::path& run_dir);

// The directories of a job on the hosts where its ranks run: a hostPath, as --volume gives one.
// Throws Error(65) for other kinds.
LocalVolumes volumes_of_hosts(const job::TrainingJob& job);

// The job with the local directory where its configuration names a path below /data.
job::TrainingJob with_local_paths(job::TrainingJob job, const LocalVolumes& volumes);

// The digits that come with the program: three folders above it (a build in a checkout), installed,
// or in the current directory. Empty: nowhere.
std::filesystem::path bundled_digits(const std::filesystem::path& program);

}  // namespace coxswain::cluster
