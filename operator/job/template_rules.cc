#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "operator/job/json_fields.h"
#include "operator/job/quantity.h"
#include "operator/job/validation.h"
#include "trainer/contract/config/text.h"

namespace coxswain::job {

namespace {

constexpr std::size_t kMaxEnvironmentBytes = 128 * 1024;

// Names that we set, or that would take the launch out of our hands.
constexpr auto kReservedNames =
    std::to_array<std::string_view>({"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK",
                                     "LOCAL_RANK", "TF_CONFIG", "LD_PRELOAD", "NCCL_COMM_ID"});
constexpr auto kReservedPrefixes = std::to_array<std::string_view>(
    {"COXSWAIN_", "PET_", "DEEPLEARNING_", "OMPI_COMM_", "OMPI_MCA_orte_", "PRTE_MCA_prte_"});

bool is_reserved(std::string_view name) {
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  return std::find(kReservedNames.begin(), kReservedNames.end(), name) != kReservedNames.end() ||
         std::any_of(kReservedPrefixes.begin(), kReservedPrefixes.end(), begins);
}

bool is_environment_name(std::string_view name) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.';
  };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name.front())) &&
         std::all_of(name.begin(), name.end(), fits);
}

void check_environment(JsonFields& container) {
  std::size_t bytes = 0;
  for (const auto& [value, path] : container.elements("env")) {
    const std::string name = text_at(value, "name");
    bytes += name.size() + text_at(value, "value").size();
    if (!is_environment_name(name))
      container.refuse(path + ".name",
                       "not a name of an environment variable: " + contract::quote(name));
    if (is_reserved(name))
      container.refuse(path + ".name",
                       contract::quote(name) + " is for the operator to set; remove it");
  }
  if (bytes > kMaxEnvironmentBytes)
    container.refuse(container.path_of("env"),
                     fmt::format("at most {} bytes in all, got {}", kMaxEnvironmentBytes, bytes));
}

bool is_object_name(std::string_view name) {
  const auto fits = [](unsigned char c) {
    return std::islower(c) || std::isdigit(c) || c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= 253 && std::all_of(name.begin(), name.end(), fits);
}

// An object is named without its namespace: there is no way to another one.
void check_reference(JsonFields& container, const Json& source, const char* kind,
                     const std::string& path) {
  if (!source.is_object() || !source.contains(kind)) return;
  const std::string name = text_at(source.at(kind), "name");
  if (!is_object_name(name))
    container.refuse(fmt::format("{}.{}.name", path, kind),
                     "not a name of an object in the job's namespace: " + contract::quote(name));
}

void check_references(JsonFields& container) {
  for (const auto& [value, path] : container.elements("envFrom"))
    for (const char* kind : {"secretRef", "configMapRef"})
      check_reference(container, value, kind, path);
  for (const auto& [value, path] : container.elements("env"))
    if (value.is_object() && value.contains("valueFrom"))
      for (const char* kind : {"secretKeyRef", "configMapKeyRef"})
        check_reference(container, value.at("valueFrom"), kind, path + ".valueFrom");
}

void check_words(JsonFields& container, const char* key) {
  for (const auto& [value, path] : container.elements(key))
    if (!value.is_string()) container.refuse(path, "must be a text, got " + describe(value));
}

std::optional<double> quantity(JsonFields& fields, const Json& value, const std::string& path) {
  const auto amount = quantity_of(value);
  if (!amount)
    fields.refuse(path,
                  "not a quantity (as 500m, 2 or 4Gi): " +
                      contract::quote(value.is_string() ? value.get<std::string>() : value.dump()));
  return amount;
}

void check_resources(JsonFields& container) {
  const Json* value = container.find("resources");
  if (!value) return;
  JsonFields resources(*value, container.path_of("resources"), container.problems());
  Json requests = Json::object();
  Json limits = Json::object();
  resources.read("requests", requests);
  resources.read("limits", limits);
  for (const auto& [name, limit] : limits.items())
    quantity(resources, limit, resources.path_of("limits." + name));
  for (const auto& [name, request] : requests.items()) {
    const std::string path = resources.path_of("requests." + name);
    const auto amount = quantity(resources, request, path);
    if (!amount || !limits.contains(name)) continue;
    const Json& limit = limits.at(name);
    const auto most = quantity_of(limit);
    if (most && *amount > *most)
      resources.refuse(path, fmt::format("{} is above its limit {}", request.dump(), limit.dump()));
  }
}

void check_ports(JsonFields& container) {
  for (const auto& [value, path] : container.elements("ports")) {
    JsonFields port(value, path, container.problems());
    int number = 0;
    port.require("containerPort");
    port.read("containerPort", number, {.range = {1, 65535}});
  }
}

void check_mounts(JsonFields& container, const std::set<std::string>& volumes) {
  for (const auto& [value, path] : container.elements("volumeMounts")) {
    const std::string name = text_at(value, "name");
    if (!volumes.contains(name))
      container.refuse(path + ".name", "no volume of this name: " + contract::quote(name));
  }
}

void check_container(const Json& value, const std::string& path, bool trains,
                     const std::set<std::string>& volumes, std::vector<Problem>& problems) {
  JsonFields container(value, path, problems);
  std::string image;
  container.read("image", image);
  const bool given = container.find("image") != nullptr;
  if (!given && !trains) container.refuse(container.path_of("image"), "required");
  if (given && !is_image_reference(image))
    container.refuse(container.path_of("image"),
                     "not an image ([registry/]name[:tag]): " + contract::quote(image));
  check_words(container, "command");
  check_words(container, "args");
  check_environment(container);
  check_references(container);
  check_resources(container);
  check_ports(container);
  check_mounts(container, volumes);
}

// Where the job's own volumes are mounted in the container that trains.
std::set<std::string> own_places(const Spec& spec) {
  std::set<std::string> places = {"/etc/coxswain", "/run/coxswain"};
  if (spec.data_volume) places.insert("/data");
  if (spec.checkpoints_volume) places.insert("/checkpoints");
  return places;
}

void check_places(const Json& container, const std::string& path,
                  const std::set<std::string>& places, std::vector<Problem>& problems) {
  JsonFields fields(container, path, problems);
  for (const auto& [mount, mount_path] : fields.elements("volumeMounts")) {
    const std::string place = text_at(mount, "mountPath");
    if (places.contains(place))
      fields.refuse(mount_path + ".mountPath",
                    fmt::format("{} is where the operator mounts its own; use another place",
                                contract::quote(place)));
  }
}

// Those that the containers of a template may mount: its own, and the job's.
std::set<std::string> volume_names(const TrainingJob& job, JsonFields& pod) {
  std::set<std::string> ours;
  if (job.spec.data_volume) ours.insert("data");
  if (job.spec.checkpoints_volume) ours.insert("checkpoints");
  std::set<std::string> names = ours;
  for (const auto& [value, path] : pod.elements("volumes")) {
    const std::string name = text_at(value, "name");
    if (ours.contains(name) || name.starts_with("coxswain-"))
      pod.refuse(path + ".name", contract::quote(name) + " is the operator's own; rename it");
    names.insert(name);
  }
  return names;
}

void check_containers(const TrainingJob& job, const ReplicaSpec& replicas, JsonFields& pod) {
  const auto containers = pod.elements("containers");
  if (containers.empty()) pod.refuse(pod.path_of("containers"), "at least one container");
  const std::set<std::string> volumes = volume_names(job, pod);
  const Json* trainer = trainer_container(replicas);
  std::set<std::string> names;
  for (const auto& [value, path] : containers) {
    const std::string name = text_at(value, "name");
    if (name.empty()) pod.refuse(path + ".name", "required");
    if (!name.empty() && !names.insert(name).second)
      pod.refuse(path + ".name", "a second container named " + contract::quote(name));
    check_container(value, path, &value == trainer, volumes, pod.problems());
    if (&value == trainer) check_places(value, path, own_places(job.spec), pod.problems());
  }
  for (const auto& [value, path] : pod.elements("initContainers"))
    check_container(value, path, false, volumes, pod.problems());
  if (!trainer && !containers.empty())
    pod.refuse(
        pod.path_of("containers"),
        fmt::format("name the container that trains `trainer` (found {})", fmt::join(names, ", ")));
}

// Those that the operator would overwrite.
void check_own_fields(JsonFields& pod) {
  constexpr std::pair<const char*, const char*> kAdvice[] = {
      {"hostname", "is the pod's own name, by which its peers find it; remove it"},
      {"subdomain", "is the job's Service, by which its pods find each other; remove it"},
      {"terminationGracePeriodSeconds",
       "stands in spec.runPolicy.terminationGracePeriodSeconds; move it there"}};
  for (const auto& [field, advice] : kAdvice)
    if (pod.find(field)) pod.refuse(pod.path_of(field), advice);
}

void check_placement(JsonFields& pod) {
  Json selector = Json::object();
  pod.read("nodeSelector", selector);
  for (const auto& [key, value] : selector.items())
    if (!value.is_string())
      pod.refuse(pod.path_of("nodeSelector." + key), "must be a text, got " + describe(value));
  for (const auto& [value, path] : pod.elements("tolerations")) {
    const std::string how = text_at(value, "operator");
    if (!how.empty() && how != "Exists" && how != "Equal")
      pod.refuse(path + ".operator", "must be Exists or Equal, got " + contract::quote(how));
  }
  const Json* system = pod.find("os");
  if (system && text_at(*system, "name") != "linux")
    pod.refuse(pod.path_of("os.name"), "workers are Linux pods; remove it");
  check_own_fields(pod);
  const Json* restart = pod.find("restartPolicy");
  if (restart && *restart != "Never")
    pod.refuse(pod.path_of("restartPolicy"),
               "must be Never: the operator restarts whole gangs; got " + describe(*restart));
}

// A container that is stopped gets no longer than this.
void check_sleeps(const Json& pod, const std::string& path, Seconds grace,
                  std::vector<Problem>& problems) {
  for (const char* list : {"containers", "initContainers"})
    for (std::size_t i = 0; i < list_at(pod, list).size(); ++i)
      for (const char* hook : {"postStart", "preStop"}) {
        const Json& lifecycle = member(list_at(pod, list)[i], "lifecycle");
        const Json& seconds = member(member(member(lifecycle, hook), "sleep"), "seconds");
        if (!seconds.is_number_integer()) continue;
        if (const auto time = seconds.get<std::int64_t>(); time < 0 || time > grace.count())
          problems.push_back(
              {fmt::format("{}.{}[{}].lifecycle.{}.sleep.seconds", path, list, i, hook), 0,
               fmt::format("must be 0 to runPolicy.terminationGracePeriodSeconds, "
                           "which is {}; got {}",
                           grace.count(), time)});
      }
}

}  // namespace

bool is_image_reference(const std::string& text) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("._-/:@").find(static_cast<char>(c)) != std::string_view::npos;
  };
  const auto edge = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return !text.empty() && text.size() <= 512 && edge(text.front()) && edge(text.back()) &&
         std::all_of(text.begin(), text.end(), fits) && text.find("::") == std::string::npos &&
         text.find("//") == std::string::npos;
}

void check_template(const TrainingJob& job, const ReplicaSpec& replicas, const std::string& path,
                    const Installation& installation, std::vector<Problem>& problems) {
  const Json& value = replicas.pod_template;
  if (value.is_null()) return;
  refuse_namespaces(value, path, problems);
  check_pod(value, path, problems);
  JsonFields fields(value, path, problems);
  const Json* spec = fields.require("spec");
  if (!spec) return;
  JsonFields pod(*spec, fields.path_of("spec"), problems);
  check_containers(job, replicas, pod);
  check_placement(pod);
  check_sleeps(*spec, fields.path_of("spec"), job.spec.run_policy.termination_grace, problems);
  check_pod_security(pod, installation);
  if (const Json* metadata = fields.find("metadata")) {
    JsonFields of_template(*metadata, fields.path_of("metadata"), problems);
    check_pod_security_annotations(of_template, installation);
  }
}

void check_volume_source(const Json& source, const std::string& path,
                         const Installation& installation, std::vector<Problem>& problems) {
  refuse_namespaces(source, path, problems);
  if (source.size() != 1) {
    problems.push_back({path, 0, "must name one source, as persistentVolumeClaim: {claimName: x}"});
    return;
  }
  const std::string kind = source.begin().key();
  check_volume(source, path, problems);
  check_volume_kind(kind, path, installation, problems);
}

}  // namespace coxswain::job
