#include "operator/job_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "operator/job/job_reader.h"
#include "operator/job/validation.h"
#include "operator/job/worker_spec.h"
#include "trainer/contract/error.h"

namespace coxswain {

namespace {

constexpr std::size_t kMaxBytes = (1 << 20) + 1;  // one more than the reader takes

std::string read_all(std::istream& in) {
  std::string text(kMaxBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

std::string indented(const std::string& text) {
  std::string result;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    result += "  " + text.substr(start, end - start) + "\n";
    start = end + 1;
  }
  return result;
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
  job.status.workers = job.spec.worker.replicas;
  if (job.status.image.empty()) {
    job.status.image = job.spec.image.value_or(job::Installation{}.trainer_image);
  }
  std::string text;
  for (const job::WorkerId& id : job::gang(job)) text += to_text(job::worker_spec(job, id));
  text += fmt::format("hostfile\n{}", indented(job::hostfile(job)));
  const std::string config = job::training_config(job, job::Paths{});
  if (!config.empty()) text += fmt::format("training.yaml\n{}", indented(config));
  return text;
}

}  // namespace coxswain
