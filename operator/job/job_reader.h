#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "operator/job/training_job.h"
#include "trainer/contract/config/trainer_config.h"

namespace coxswain::job {

// What a file holds: the object that says it is a TrainingJob, where its fields stand, and what is
// for kubectl beside it, as the claim of its volume.
struct JobDocument {
  Json object;
  std::map<std::string, int> lines;  // of each field's path
  std::vector<Json> companions;
};

// Reads YAML or JSON text (at most 1 MiB, 64 levels deep, UTF-8). Text that is no document throws
// Error(kBadInput) with the place ("job.yaml:7:3: ...").
JobDocument read_document(std::string_view text, const std::string& source_name);

// The same of all documents in a text, whatever they say that they are.
std::vector<JobDocument> read_documents(std::string_view text, const std::string& source_name);

// What can be read but is wrong (unknown fields with the nearest known one, wrong types, unknown
// words) is listed in `problems` with path and line; the fields concerned keep their defaults.
TrainingJob read_job(const JobDocument& document);
TrainingJob read_job(std::string_view text, const std::string& source_name);

// Reads what the API server sent. Never throws; problems carry no lines.
TrainingJob read_job(const Json& object);

// The configuration that a job's `training` and `checkpoint` parts make; what is wrong with them is
// added to `problems`, with lines where the job has them. The job must have a `training` part.
contract::TrainerConfig read_training_parts(const TrainingJob& job, std::vector<Problem>& problems);

// Where the field `path`, or the nearest one around it, stands in the file; 0: not read from one.
int line_of(const TrainingJob& job, std::string path);

Json to_json(const TrainingJob& job);

}  // namespace coxswain::job
