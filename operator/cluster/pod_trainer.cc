#include "operator/cluster/pod_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "operator/cluster/pod.h"
#include "operator/cluster/pod_json.h"
#include "trainer/contract/worker/constants.h"

namespace coxswain::cluster {

namespace {

// Volumes of ours. `data` and `checkpoints` are names that a template's containers may mount too.
constexpr const char* kDataVolume = "data";
constexpr const char* kCheckpointsVolume = "checkpoints";
constexpr const char* kFilesVolume = "coxswain-files";
constexpr const char* kRunVolume = "coxswain-run";
constexpr const char* kSharedMemoryVolume = "coxswain-shm";
constexpr const char* kTemporaryVolume = "coxswain-tmp";

constexpr const char* kFilesDirectory = "/etc/coxswain";
constexpr const char* kSharedMemoryDirectory = "/dev/shm";
constexpr const char* kTemporaryDirectory = "/tmp";
constexpr int kFilesMode = 0440;  // root's, and of the group fsGroup

struct Mount {
  const char* volume;
  Json source;
  std::string path;
  bool read_only = false;
};

Json empty_dir(const char* limit) { return {{"emptyDir", {{"sizeLimit", limit}}}}; }

Json memory_dir(const char* limit) {
  return {{"emptyDir", {{"medium", "Memory"}, {"sizeLimit", limit}}}};
}

// Hostfile and configuration, and the keys where our programs use them.
Json files_source(const job::TrainingJob& job, const std::string& config_map, bool with_keys) {
  Json sources = Json::array({{{"configMap", {{"name", config_map}}}}});
  if (with_keys) {
    Json items = Json::array();
    for (const std::string_view file :
         {contract::kClientKeyFile, contract::kAuthorizedKeysFile, contract::kHostKeyFile,
          contract::kKnownHostsFile, contract::kServerKeyFile})
      items.push_back({{"key", file}, {"path", fmt::format("keys/{}", file)}});
    sources.push_back({{"secret", {{"name", secret_name(job)}, {"items", items}}}});
  }
  return {{"projected", {{"defaultMode", kFilesMode}, {"sources", sources}}}};
}

bool mounts_at(const Json& container, std::string_view path) {
  const Json& mounts = list_at(container, "volumeMounts");
  return std::any_of(mounts.begin(), mounts.end(),
                     [&](const Json& mount) { return text_at(mount, "mountPath") == path; });
}

std::vector<Mount> mounts_of(const job::TrainingJob& job, const job::WorkerSpec& worker,
                             const std::string& config_map, const Json& container, bool own) {
  const bool our_program = !worker.command.empty();
  std::vector<Mount> mounts = {
      {kFilesVolume, files_source(job, config_map, our_program && job::needs_keys(job.spec)),
       kFilesDirectory, true}};
  if (worker.mounts_data)
    mounts.push_back({kDataVolume, *job.spec.data_volume, std::string(contract::kDataDirectory),
                      job.spec.training.has_value()});
  if (worker.mounts_checkpoints)
    mounts.push_back({kCheckpointsVolume, *job.spec.checkpoints_volume,
                      std::string(contract::kCheckpointsDirectory)});
  if (our_program)
    // In memory: the environment for ranks that come over SSH may hold secrets.
    mounts.push_back({kRunVolume, memory_dir("64Mi"), std::string(contract::kRunDirectory)});
  if (!mounts_at(container, kSharedMemoryDirectory))
    mounts.push_back({kSharedMemoryVolume, memory_dir("1Gi"), kSharedMemoryDirectory});
  if (own) mounts.push_back({kTemporaryVolume, empty_dir("1Gi"), kTemporaryDirectory});
  return mounts;
}

void erase_named(Json& list, const char* key, std::string_view name) {
  for (std::size_t i = list.size(); i-- > 0;)
    if (text_at(list[i], key) == name) list.erase(i);
}

void add_mounts(const std::vector<Mount>& mounts, Json& container, Json& pod_spec) {
  for (const Mount& mount : mounts) {
    Json& volumes = list_in(pod_spec, "volumes");
    erase_named(volumes, "name", mount.volume);
    Json volume = mount.source;
    volume["name"] = mount.volume;
    volumes.push_back(std::move(volume));
    Json& places = list_in(container, "volumeMounts");
    erase_named(places, "mountPath", mount.path);
    Json place = {{"name", mount.volume}, {"mountPath", mount.path}};
    if (mount.read_only) place["readOnly"] = true;
    places.push_back(std::move(place));
  }
}

// Ours come first, so that the template's may refer to them: "$(COXSWAIN_INDEX)".
void add_environment(const job::WorkerSpec& worker, Json& container) {
  Json environment = Json::array();
  for (const auto& [name, value] : worker.environment)
    environment.push_back({{"name", name}, {"value", value}});
  for (const Json& given : list_at(container, "env"))
    if (!worker.environment.contains(text_at(given, "name"))) environment.push_back(given);
  container["env"] = std::move(environment);
}

// When the ranks of this pod are in training. A program that is not ours is Ready once it runs.
void add_readiness(const job::TrainingJob& job, const job::WorkerSpec& worker, Json& container) {
  if (worker.command.empty()) return;
  const bool has_endpoint = job.spec.training.has_value() || worker.id.role == job::Role::kServer;
  const bool mpi = job::launcher(job.spec) == job::Launcher::kMpi;
  Json probe = {{"periodSeconds", 2}, {"timeoutSeconds", 2}, {"failureThreshold", 5}};
  if (mpi && (worker.serves || !has_endpoint))
    probe["tcpSocket"] = {{"port", contract::kSshPort}};
  else if (has_endpoint)
    probe["httpGet"] = {{"path", "/healthz"}, {"port", contract::kRankPort}};
  else
    return;
  fill(container, "readinessProbe", std::move(probe));
}

Json own_container(const job::TrainingJob& job, const job::WorkerSpec& worker) {
  Json ports = Json::array({{{"name", "metrics"}, {"containerPort", contract::kRankPort}}});
  if (job::launcher(job.spec) == job::Launcher::kMpi)
    ports.push_back({{"name", "ssh"}, {"containerPort", contract::kSshPort}});
  if (worker.id.role == job::Role::kServer)
    ports.push_back({{"name", "server"}, {"containerPort", contract::kServerPort}});
  const int slots = worker.id.role == job::Role::kServer ? 1 : job::slots_per_worker(job.spec);
  return {{"name", contract::kTrainerContainer},
          {"image", worker.image},
          {"ports", ports},
          {"resources", default_resources(slots)},
          {"securityContext", {{"readOnlyRootFilesystem", true}}}};
}

// Where the template's trainer container stands; nullopt: none can be told.
std::optional<std::size_t> trainer_index(const job::ReplicaSpec& replicas) {
  const Json* trainer = job::trainer_container(replicas);
  if (!trainer) return std::nullopt;
  const Json& containers = replicas.pod_template.at("spec").at("containers");
  for (std::size_t i = 0; i < containers.size(); ++i)
    if (&containers[i] == trainer) return i;
  return std::nullopt;
}

// A volume that this pod has not, as /checkpoints of all but one, is not mounted by sidecars
// either.
void drop_mounts_of(const char* volume, Json& pod_spec) {
  for (const char* list : {"containers", "initContainers"}) {
    if (!find(pod_spec, list)) continue;
    for (Json& container : list_in(pod_spec, list))
      if (find(container, "volumeMounts"))
        erase_named(list_in(container, "volumeMounts"), "name", volume);
  }
}

}  // namespace

Json default_resources(int slots) {
  const auto amounts = [&](int gigabytes) {
    return Json{{"cpu", std::to_string(slots)}, {"memory", fmt::format("{}Gi", gigabytes * slots)}};
  };
  return {{"requests", amounts(2)}, {"limits", amounts(4)}};
}

std::string add_trainer(const job::TrainingJob& job, const job::WorkerSpec& worker,
                        const job::ReplicaSpec& replicas, const std::string& config_map,
                        Json& pod_spec) {
  const bool own = replicas.pod_template.is_null();
  if (own) pod_spec["containers"] = Json::array({own_container(job, worker)});
  const auto index = own ? 0 : trainer_index(replicas);
  if (!index) return "";
  Json& container = pod_spec["containers"][*index];
  if (!worker.image.empty()) fill(container, "image", worker.image);
  if (!worker.command.empty()) {
    container["command"] = worker.command;
    container.erase("args");
  }
  add_environment(worker, container);
  if (job.spec.checkpoints_volume && !worker.mounts_checkpoints)
    drop_mounts_of(kCheckpointsVolume, pod_spec);
  Json completed = std::move(container);
  add_mounts(mounts_of(job, worker, config_map, completed, own), completed, pod_spec);
  add_readiness(job, worker, completed);
  const std::string name = text_at(completed, "name");
  pod_spec["containers"][*index] = std::move(completed);
  for (const char* list : {"containers", "initContainers"}) {
    if (!find(pod_spec, list)) continue;
    for (Json& each : list_in(pod_spec, list))
      if (each.is_object()) fill(each, "terminationMessagePolicy", "FallbackToLogsOnError");
  }
  return name;
}

}  // namespace coxswain::cluster
