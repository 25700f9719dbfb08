#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "operator/cluster/local_volumes.h"
#include "operator/job/training_job.h"

namespace coxswain {

struct EstimateOptions {
  std::string workers = "1,2,4,8,16";
  std::string network = "10Gb/s,50us";
  bool measure = false;
  std::optional<double> rate;        // images a second of a rank alone
  std::optional<double> samples;     // of an epoch
  std::optional<double> parameters;  // of the model
  std::string seen;                  // "2=420": a speed that was seen
  std::string between_faults;        // of a node; empty: none are counted
  std::string restart = "30s";
  cluster::VolumeDirectories volumes;
  std::filesystem::path program;  // coxswain itself; coxswain-trainer lies beside it
};

// Prints a table of sizes, the cheapest and the fastest of them, and what faults cost. Throws
// Error: 2 for bad flags, 65 for a job of which nothing can be told, the trainer's own where a
// measurement fails.
int estimate_job(const job::TrainingJob& job, const EstimateOptions& options);

}  // namespace coxswain
