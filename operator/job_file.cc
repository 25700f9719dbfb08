#include "operator/job_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <set>

#include "crds/generator/crd.h"
#include "crds/generator/kubernetes_schemas.h"
#include "operator/cluster/pod.h"
#include "operator/job/job_reader.h"
#include "operator/job/validation.h"
#include "operator/job/roles.h"
#include "operator/job/worker_spec.h"
#include "operator/job/yaml.h"
#include "operator/job_text.h"
#include "trainer/contract/printable.h"

namespace coxswain {

namespace {

constexpr std::size_t kMostProblems = 100;
constexpr std::size_t kMostPathCharacters = 300;
constexpr std::size_t kMostMessageCharacters = 500;
constexpr const char* kUidToCome = "00000000-0000-0000-0000-000000000000";

std::string to_line(const job::Problem& problem, const std::string& file_name) {
  const std::string place =
      problem.line > 0 ? fmt::format("{}:{}", file_name, problem.line) : file_name;
  return fmt::format("{}: {}{}{}", printable(place, kMostPathCharacters),
                     printable(problem.path, kMostPathCharacters), problem.path.empty() ? "" : ": ",
                     printable(problem.message, kMostMessageCharacters));
}

// What is at the end of the path; null where there is no such way.
const job::Json& at(const job::Json& value, std::initializer_list<const char*> path) {
  static const job::Json nothing;
  const job::Json* place = &value;
  for (const char* key : path) {
    if (!place->is_object() || !place->contains(key)) return nothing;
    place = &place->at(key);
  }
  return *place;
}

// Whether the file holds the claim, for pods of many nodes.
bool is_for_many(const std::vector<job::Json>& companions, const job::Json& claim) {
  return std::ranges::any_of(companions, [&](const job::Json& one) {
    const job::Json& modes = at(one, {"spec", "accessModes"});
    return at(one, {"kind"}) == "PersistentVolumeClaim" && at(one, {"metadata", "name"}) == claim &&
           std::ranges::any_of(modes, [](const job::Json& mode) {
             return mode == "ReadWriteMany" || mode == "ReadOnlyMany";
           });
  });
}

}  // namespace

JobFile read_job_file(const std::filesystem::path& file) {
  const std::string name = file == "-" ? "standard input" : file.string();
  const job::JobDocument document = job::read_document(read_job_text(file), name);
  JobFile result{.name = name,
                 .job = job::read_job(document),
                 .against_schema = {},
                 .companions = document.companions};
  const job::Json schema = crd::training_job_schema(crd::Json::parse(crd::kubernetes_schemas()));
  job::check_schema(document.object, schema, "", result.against_schema);
  job::check_metadata(document.object.value("metadata", job::Json()), "metadata",
                      result.against_schema);
  for (job::Problem& problem : result.against_schema)
    problem.line = line_of(result.job, problem.path);
  return result;
}

std::vector<std::string> problems_of(const JobFile& file, const job::Installation& installation) {
  std::vector<job::Problem> problems = job::validate(file.job, installation);
  std::set<std::string> told;
  for (const job::Problem& problem : problems) told.insert(problem.path);
  const auto known = [&](const job::Problem& problem) { return told.contains(problem.path); };
  std::vector<job::Problem> more;  // ours say better what to write instead
  std::ranges::copy_if(file.against_schema, std::back_inserter(more), std::not_fn(known));
  problems.insert(problems.end(), more.begin(), more.end());
  std::ranges::stable_sort(problems, {}, &job::Problem::line);
  std::vector<std::string> lines;
  for (const job::Problem& problem : problems) {
    if (lines.size() == kMostProblems) {
      lines.push_back(fmt::format("{}: and {} more", file.name, problems.size() - lines.size()));
      break;
    }
    lines.push_back(to_line(problem, file.name));
  }
  return lines;
}

std::vector<std::string> warnings_of(const JobFile& file) {
  const job::Spec& spec = file.job.spec;
  std::vector<std::pair<std::string, job::Json>> shared;  // volumes that every worker mounts
  if (spec.worker.replicas < 2) return {};
  if (spec.data_volume) shared.emplace_back("spec.volumes.data", *spec.data_volume);
  if (spec.checkpoints_volume && !spec.training)
    shared.emplace_back("spec.volumes.checkpoints", *spec.checkpoints_volume);
  const job::Json& volumes = at(spec.worker.pod_template, {"spec", "volumes"});
  for (std::size_t i = 0; i < volumes.size(); ++i)
    shared.emplace_back(fmt::format("spec.replicaSpecs.Worker.template.spec.volumes[{}]", i),
                        volumes[i]);
  std::vector<std::string> lines;
  for (const auto& [place, source] : shared) {
    const job::Json& claim = at(source, {"persistentVolumeClaim", "claimName"});
    if (!claim.is_string() || is_for_many(file.companions, claim)) continue;
    const std::string message = fmt::format(
        "all {} workers mount the claim {}: unless it is ReadWriteMany or ReadOnlyMany "
        "they must fit on one node",
        spec.worker.replicas, claim.get<std::string>());
    lines.push_back("warning: " + to_line({place, line_of(file.job, place), message}, file.name));
  }
  return lines;
}

std::string describe_gang(job::TrainingJob job) {
  job.metadata.uid = kUidToCome;
  job.status.workers = job.spec.worker.replicas;
  job.status.keys_secret = job.metadata.name + "-keys-0000000000000000";  // zeros as in the uid
  job.status.host_port = job::draw_host_port(job, job.status.attempt);
  if (job.status.image.empty()) job.status.image = job::image_of(job.spec, {});
  std::vector<job::Json> objects = {cluster::service(job)};
  if (job::needs_keys(job.spec)) objects.push_back(cluster::secret(job, {}));
  objects.push_back(cluster::config_map(job));
  if (job::has_pod_group(job.spec.run_policy.scheduling.gang)) {
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
