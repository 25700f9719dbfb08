#include "operator/cluster/local_volumes.h"

#include <fmt/format.h>

#include <string_view>

#include "trainer/contract/error.h"
#include "trainer/contract/worker/constants.h"

namespace coxswain::cluster {

namespace {

using std::filesystem::path;

path made(const path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error || !std::filesystem::is_directory(directory)) {
    throw Error(ExitCode::kVolume,
                fmt::format("[volumes] can't make {}: {}", directory.string(),
                            error ? error.message() : "something else is there"));
  }
  return std::filesystem::canonical(directory);
}

// The text at source[kind][key]; a claim's name, a host's path.
std::string text_in(const job::Json& source, const char* kind, const char* key) {
  const job::Json& inner = source.at(kind);
  if (!inner.is_object() || !inner.contains(key) || !inner.at(key).is_string()) return "";
  return inner.at(key).get<std::string>();
}

path directory_of(const job::Json& source, const std::string& name, const path& run_dir) {
  if (source.contains("emptyDir")) return made(run_dir / "volumes" / name);
  const std::string claim = source.contains("persistentVolumeClaim")
                                ? text_in(source, "persistentVolumeClaim", "claimName")
                                : "";
  // A claim's name holds no slash; nor shall ours lead elsewhere.
  if (!claim.empty() && path(claim).filename() == claim && claim != "..") {
    return made(path("coxswain-volumes") / claim);
  }
  const std::string host = source.contains("hostPath") ? text_in(source, "hostPath", "path") : "";
  if (!host.empty()) return made(host);
  throw Error(ExitCode::kBadInput,
              fmt::format("[volumes] {}: this kind of volume has no local directory; give one with "
                          "--volume {}=DIR",
                          name, name));
}

path resolve(const std::optional<job::Json>& source, const std::string& name, const path& run_dir) {
  return source && source->is_object() ? directory_of(*source, name, run_dir) : path();
}

// /data and what is below it, in the directory of the data volume.
void relocate(job::Json& data, const char* key, const path& directory) {
  if (!data.contains(key) || !data.at(key).is_string()) return;
  const std::string in_pod = data.at(key).get<std::string>();
  const std::string root(contract::kDataDirectory);
  if (in_pod == root) data[key] = directory.string();
  if (in_pod.starts_with(root + "/")) {
    data[key] = (directory / in_pod.substr(root.size() + 1)).string();
  }
}

}  // namespace

job::TrainingJob with_volumes(job::TrainingJob job, const VolumeDirectories& given) {
  const std::map<std::string, std::optional<job::Json>*> all = {
      {"data", &job.spec.data_volume}, {"checkpoints", &job.spec.checkpoints_volume}};
  std::string known;
  for (const auto& [name, volume] : all)
    if (*volume) known += (known.empty() ? "" : " and ") + name;
  for (const auto& [name, directory] : given) {
    const auto found = all.find(name);
    if (found == all.end() || !*found->second)
      throw Error(ExitCode::kUsage,
                  fmt::format("--volume {}={}: the job has {}{}", name, directory.string(),
                              known.empty() ? "no volumes" : "the volumes " + known,
                              found == all.end() ? "" : "; add it to spec.volumes"));
    *found->second = job::Json{{"hostPath", {{"path", directory.string()}}}};
  }
  return job;
}

LocalVolumes local_volumes(const job::TrainingJob& job, const path& run_dir) {
  return {.data = resolve(job.spec.data_volume, "data", run_dir),
          .checkpoints = resolve(job.spec.checkpoints_volume, "checkpoints", run_dir)};
}

LocalVolumes volumes_of_hosts(const job::TrainingJob& job) {
  const auto directory = [](const std::optional<job::Json>& source, const char* name) -> path {
    if (!source || !source->is_object()) return {};
    const std::string host =
        source->contains("hostPath") ? text_in(*source, "hostPath", "path") : "";
    if (!host.empty()) return host;
    throw Error(ExitCode::kBadInput,
                fmt::format("[volumes] {}: hosts have directories alone; name theirs with "
                            "--volume {}=DIR",
                            name, name));
  };
  return {.data = directory(job.spec.data_volume, "data"),
          .checkpoints = directory(job.spec.checkpoints_volume, "checkpoints")};
}

job::TrainingJob with_local_paths(job::TrainingJob job, const LocalVolumes& volumes) {
  if (volumes.data.empty() || !job.spec.training || !job.spec.training->contains("data")) {
    return job;
  }
  job::Json& data = job.spec.training->at("data");
  if (!data.is_object()) return job;
  relocate(data, "path", volumes.data);
  relocate(data, "evalPath", volumes.data);
  return job;
}

path bundled_digits(const path& program) {
  for (const path& place : {program.parent_path() / "../../../examples/data/mnist",
                            path(contract::kBundledMnistDirectory), path("examples/data/mnist")}) {
    if (std::filesystem::is_directory(place)) return std::filesystem::canonical(place);
  }
  return {};
}

}  // namespace coxswain::cluster
