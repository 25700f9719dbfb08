#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "operator/job/observed.h"
#include "operator/job/training_job.h"

namespace coxswain {

// Reads a TrainingJob from a file ("-": standard input). Throws Error(65) when it can't be read or
// is no document; what else is wrong with it is for problems_of() to tell.
job::TrainingJob read_job_file(const std::filesystem::path& file);

// Every reason why the job can't start, "job.yaml:7: spec.training.epochs: ..." a line; empty: it
// can.
std::string problems_of(const job::TrainingJob& job, const std::string& file_name,
                        const job::Installation& installation = {});

// The objects that would be made for the first attempt, as YAML documents: services, config map
// with hostfile and configuration, every pod. Those that the job itself can't tell, its uid and its
// keys, are zeros and empty.
std::string describe_gang(job::TrainingJob job);

}  // namespace coxswain
