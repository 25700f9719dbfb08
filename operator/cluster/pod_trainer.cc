#include "operator/cluster/pod_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "operator/cluster/pod.h"
#include "operator/cluster/pod_json.h"
#include "operator/job/roles.h"
#include "trainer/contract/worker/constants.h"
#include "trainer/contract/worker/worker_env.h"

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
constexpr int kFilesMode = 0444;
constexpr int kKeysMode = 0440;  // root's, and of the group fsGroup

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

// Of the job's keys those that this worker's program uses, and no others. Only the worker that runs
// mpirun goes to others over SSH: whoever breaks into another one finds no key to the rest.
std::vector<std::string_view> keys_of(const job::TrainingJob& job, const job::WorkerSpec& worker) {
  if (worker.command.empty() || !job::needs_keys(job.spec)) return {};
  if (job::trains_over_tcp(job.spec)) return {contract::kServerKeyFile};
  std::vector<std::string_view> files = {contract::kAuthorizedKeysFile, contract::kHostKeyFile};
  if (!worker.serves)
    files.insert(files.end(), {contract::kClientKeyFile, contract::kKnownHostsFile});
  return files;
}

// Hostfile and configuration, and keys.
Json files_source(const job::TrainingJob& job, const std::string& config_map,
                  const std::vector<std::string_view>& keys) {
  Json sources = Json::array({{{"configMap", {{"name", config_map}}}}});
  Json items = Json::array();
  for (const std::string_view file : keys)
    items.push_back({{"key", file}, {"path", fmt::format("keys/{}", file)}});
  if (!items.empty())
    sources.push_back({{"secret", {{"name", secret_name(job)}, {"items", items}}}});
  const int mode = keys.empty() ? kFilesMode : kKeysMode;
  return {{"projected", {{"defaultMode", mode}, {"sources", sources}}}};
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
      {kFilesVolume, files_source(job, config_map, keys_of(job, worker)), kFilesDirectory, true}};
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

// What `envFrom` holds can't be seen here. The names that we set stand against it, as Kubernetes
// has it; of the other reserved ones those are emptied that mean nothing when they are empty, to
// our programs or the loader. Not so RANK and LOCAL_RANK, which every starter of ranks sets anew,
// nor what an empty value would break: TF_CONFIG, MASTER_ADDR and its kind, NCCL_COMM_ID.
void close_to_references(const Json& container, std::map<std::string, std::string>& environment) {
  if (list_at(container, "envFrom").empty()) return;
  for (const std::string& name : contract::worker_env_names()) environment.try_emplace(name, "");
  environment.try_emplace("LD_PRELOAD", "");
}

// Ours come first, so that the template's may refer to them: "$(COXSWAIN_INDEX)".
void add_environment(const job::WorkerSpec& worker, Json& container) {
  std::map<std::string, std::string> ours = worker.environment;
  close_to_references(container, ours);
  Json environment = Json::array();
  for (const auto& [name, value] : ours) environment.push_back({{"name", name}, {"value", value}});
  for (const Json& given : list_at(container, "env"))
    if (!ours.contains(text_at(given, "name"))) environment.push_back(given);
  container["env"] = std::move(environment);
}

// When the ranks of this pod are in training. A program that is not ours is Ready once it runs.
void add_readiness(const job::TrainingJob& job, const job::WorkerSpec& worker, Json& container) {
  if (worker.command.empty()) return;
  const bool mpi = job::launcher(job.spec) == job::Launcher::kMpi;
  const bool leads = worker.id.role == job::Role::kServer || worker.id.index == 0;
  const bool has_endpoint = job.spec.training.has_value() && (mpi || leads);
  const int endpoint = job::ports_of(job).*job::traits_of(worker.id.role).endpoint;
  Json probe = {{"periodSeconds", 2}, {"timeoutSeconds", 2}, {"failureThreshold", 5}};
  if (mpi && (worker.serves || !has_endpoint))
    probe["tcpSocket"] = {{"port", job::ports_of(job).ssh}};
  else if (has_endpoint)
    probe["httpGet"] = {{"path", "/healthz"}, {"port", endpoint}};
  else
    return;
  fill(container, "readinessProbe", std::move(probe));
}

// Declared, they keep pods that would listen on the same ports of a node apart: other jobs' that
// drew the same, and the other workers of this one.
void add_host_ports(const job::TrainingJob& job, const job::WorkerSpec& worker, Json& container) {
  const job::Ports numbers = job::ports_of(job);
  const bool mpi = job::launcher(job.spec) == job::Launcher::kMpi;
  const bool is_server = worker.id.role == job::Role::kServer;
  std::vector<int> taken = {is_server ? numbers.server : mpi ? numbers.ssh : numbers.master};
  if (!is_server && job::trains_over_tcp(job.spec)) {
    taken.clear();
    for (int slot = 0; slot < job::slots_per_worker(job.spec); ++slot)
      taken.push_back(numbers.peer + slot);
  }
  if (is_server || job.spec.training)
    taken.push_back(numbers.*job::traits_of(worker.id.role).endpoint);
  for (const int port : taken)
    list_in(container, "ports")
        .push_back({{"containerPort", port}, {"hostPort", port}, {"protocol", "TCP"}});
}

Json own_container(const job::TrainingJob& job, const job::WorkerSpec& worker) {
  const job::Ports numbers = job::ports_of(job);
  const int endpoint = numbers.*job::traits_of(worker.id.role).endpoint;
  Json ports = Json::array({{{"name", "metrics"}, {"containerPort", endpoint}}});
  if (job::launcher(job.spec) == job::Launcher::kMpi)
    ports.push_back({{"name", "ssh"}, {"containerPort", numbers.ssh}});
  if (worker.id.role == job::Role::kServer)
    ports.push_back({{"name", "server"}, {"containerPort", numbers.server}});
  else if (job::trains_over_tcp(job.spec))
    ports.push_back({{"name", "peers"}, {"containerPort", numbers.peer}});
  return {{"name", contract::kTrainerContainer},
          {"image", worker.image},
          {"ports", ports},
          {"resources", job::default_resources(job::traits_of(worker.id.role).slots(job.spec))},
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
  if (job.spec.data_volume && !worker.mounts_data) drop_mounts_of(kDataVolume, pod_spec);
  if (job.spec.checkpoints_volume && !worker.mounts_checkpoints)
    drop_mounts_of(kCheckpointsVolume, pod_spec);
  Json completed = std::move(container);
  add_mounts(mounts_of(job, worker, config_map, completed, own), completed, pod_spec);
  add_readiness(job, worker, completed);
  if (job::on_host_network(replicas)) add_host_ports(job, worker, completed);
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
