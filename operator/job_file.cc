#include "operator/job_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "operator/cluster/pod.h"
#include "operator/job/job_reader.h"
#include "operator/job/validation.h"
#include "operator/job/worker_spec.h"
#include "operator/job/yaml_text.h"
#include "trainer/contract/error.h"

namespace coxswain {

namespace {

constexpr std::size_t kMaxBytes = (1 << 20) + 1;  // one more than the reader takes
constexpr const char* kUidToCome = "00000000-0000-0000-0000-000000000000";

std::string read_all(std::istream& in) {
  std::string text(kMaxBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

}  // namespace

job::TrainingJob read_job_file(const std::filesystem::path& file) {
  if (file == "-") return job::read_job(read_all(std::cin), "standard input");
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file)) {
    throw Error(ExitCode::kBadInput, fmt::format("{}: can't read the job: {}", file.string(),
                                                 in ? "it is a directory" : std::strerror(errno)));
  }
  return job::read_job(read_all(in), file);
}

std::string problems_of(const job::TrainingJob& job, const std::string& file_name,
                        const job::Installation& installation) {
  std::string text;
  for (job::Problem problem : job::validate(job, installation)) {
    const std::string place =
        problem.line > 0 ? fmt::format("{}:{}", file_name, problem.line) : file_name;
    problem.line = 0;
    text += fmt::format("{}: {}\n", place, job::to_text(problem));
  }
  return text;
}

std::string describe_gang(job::TrainingJob job) {
  job.metadata.uid = kUidToCome;
  job.status.workers = job.spec.worker.replicas;
  if (job.status.image.empty()) {
    job.status.image = job.spec.image.value_or(job::Installation{}.trainer_image);
  }
  std::vector<job::Json> objects = {cluster::service(job)};
  if (job::needs_keys(job.spec)) objects.push_back(cluster::secret(job, {}));
  objects.push_back(cluster::config_map(job));
  if (job.spec.run_policy.scheduling.gang != job::GangScheduler::kNone) {
    objects.push_back(cluster::pod_group(job));
  }
  const std::string config_map = cluster::config_map_name(job);
  for (const job::WorkerId& id : job::gang(job)) {
    objects.push_back(cluster::pod(job, id, config_map));
  }
  std::string text;
  for (const job::Json& object : objects) text += "---\n" + job::to_yaml(object);
  return text;
}

}  // namespace coxswain
