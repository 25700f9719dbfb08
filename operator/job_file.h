#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "operator/job/observed.h"
#include "operator/job/training_job.h"

namespace coxswain {

// A job, and what the API server would refuse of its file by the schema of the CRD.
struct JobFile {
  std::string name;
  job::TrainingJob job;
  std::vector<job::Problem> against_schema;
  std::vector<job::Json> companions;  // other objects in the file
};

// Reads a file ("-": standard input). Throws Error(65) when it can't be read or is no document;
// what else is wrong with it is for problems_of() to tell.
JobFile read_job_file(const std::filesystem::path& file);

// Every reason why the job can't start, as "job.yaml:7: spec.training.epochs: ...", printable, at
// most 100; empty: it can.
std::vector<std::string> problems_of(const JobFile& file,
                                     const job::Installation& installation = {});

// What may not work as it is written, though it is no mistake: claims that several workers mount.
std::vector<std::string> warnings_of(const JobFile& file);

// The objects that would be made for the first attempt, as YAML documents: services, config map
// with hostfile and configuration, every pod. Those that the job itself can't tell, its uid and its
// keys, are zeros and empty.
std::string describe_gang(job::TrainingJob job);

}  // namespace coxswain
