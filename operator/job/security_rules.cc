#include "operator/job/security_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

// https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
namespace coxswain::job {

namespace {

constexpr auto kVolumeKinds =
    std::to_array<std::string_view>({"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral",
                                     "persistentVolumeClaim", "projected", "secret"});

// The sysctls that Kubernetes calls safe.
constexpr auto kSysctls = std::to_array<std::string_view>(
    {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
     "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
     "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
     "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem"});

constexpr std::string_view kAppArmorAnnotation = "container.apparmor.security.beta.kubernetes.io/";

constexpr const char* kWhy = " is outside Pod Security `restricted`; remove it";

void refuse(JsonFields& fields, const std::string& path, const Json& value) {
  fields.refuse(path, describe(value) + kWhy);
}

void refuse_if(JsonFields& fields, const char* key, const Json& forbidden) {
  const Json* value = fields.find(key);
  if (value && *value == forbidden) refuse(fields, fields.path_of(key), *value);
}

void refuse_unless(JsonFields& fields, const char* key,
                   std::initializer_list<std::string_view> allowed) {
  const Json* value = fields.find(key);
  if (!value) return;
  const bool fits = value->is_string() && std::find(allowed.begin(), allowed.end(),
                                                    value->get<std::string>()) != allowed.end();
  if (!fits) refuse(fields, fields.path_of(key), *value);
}

// The member as fields of its own, where it is there.
std::optional<JsonFields> within(JsonFields& owner, const char* key) {
  const Json* value = owner.find(key);
  if (!value) return std::nullopt;
  return JsonFields(*value, owner.path_of(key), owner.problems());
}

void check_capabilities(JsonFields& context) {
  const Json* value = context.find("capabilities");
  if (!value) return;
  JsonFields capabilities(*value, context.path_of("capabilities"), context.problems());
  for (const auto& [added, path] : capabilities.elements("add"))
    if (added != "NET_BIND_SERVICE") refuse(context, path, added);
  const Json* drop = capabilities.find("drop");
  if (drop && drop->is_array() && std::find(drop->begin(), drop->end(), "ALL") == drop->end())
    context.refuse(capabilities.path_of("drop"),
                   "must hold ALL, by Pod Security `restricted`; or leave it out");
}

void check_selinux(JsonFields& context) {
  auto options = within(context, "seLinuxOptions");
  if (!options) return;
  refuse_unless(*options, "type",
                {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"});
  refuse_unless(*options, "user", {""});
  refuse_unless(*options, "role", {""});
}

void check_sysctls(JsonFields& context) {
  for (const auto& [value, path] : context.elements("sysctls")) {
    const Json name = value.is_object() ? value.value("name", Json()) : Json();
    const bool safe = name.is_string() && std::find(kSysctls.begin(), kSysctls.end(),
                                                    name.get<std::string>()) != kSysctls.end();
    if (!safe) refuse(context, path + ".name", name);
  }
}

// The fields that pods and containers have in common, and those of containers alone.
void check_security_context(JsonFields& owner) {
  const Json* value = owner.find("securityContext");
  if (!value) return;
  JsonFields context(*value, owner.path_of("securityContext"), owner.problems());
  refuse_if(context, "privileged", true);
  refuse_if(context, "allowPrivilegeEscalation", true);
  refuse_if(context, "runAsNonRoot", false);
  refuse_if(context, "runAsUser", 0);
  refuse_unless(context, "procMount", {"Default"});
  check_capabilities(context);
  for (const char* profile : {"seccompProfile", "appArmorProfile"})
    if (auto fields = within(context, profile))
      refuse_unless(*fields, "type", {"RuntimeDefault", "Localhost"});
  if (auto options = within(context, "windowsOptions")) refuse_if(*options, "hostProcess", true);
  check_selinux(context);
  check_sysctls(context);
}

// A probe or hook is of the pod itself, never of another host.
void check_handler(JsonFields& owner, const char* key) {
  auto handler = within(owner, key);
  if (!handler) return;
  for (const char* kind : {"httpGet", "tcpSocket"})
    if (auto action = within(*handler, kind)) refuse_unless(*action, "host", {""});
}

void check_container(const Json& value, const std::string& path, std::vector<Problem>& problems) {
  JsonFields container(value, path, problems);
  check_security_context(container);
  for (const auto& [port, port_path] : container.elements("ports"))
    if (port.is_object() && port.contains("hostPort") && port.at("hostPort") != 0)
      refuse(container, port_path + ".hostPort", port.at("hostPort"));
  for (const char* probe : {"livenessProbe", "readinessProbe", "startupProbe"})
    check_handler(container, probe);
  if (auto lifecycle = within(container, "lifecycle"))
    for (const char* hook : {"postStart", "preStop"}) check_handler(*lifecycle, hook);
}

}  // namespace

void check_volume_kind(const std::string& kind, const std::string& path,
                       std::vector<Problem>& problems) {
  if (std::find(kVolumeKinds.begin(), kVolumeKinds.end(), kind) == kVolumeKinds.end())
    problems.push_back({path + "." + kind, 0,
                        fmt::format("not allowed by Pod Security `restricted`; use one of {}",
                                    fmt::join(kVolumeKinds, ", "))});
}

void check_restricted(JsonFields& pod) {
  for (const char* key : {"hostNetwork", "hostPID", "hostIPC"}) refuse_if(pod, key, true);
  refuse_if(pod, "automountServiceAccountToken", true);
  if (const Json* account = pod.find("serviceAccountName"); account && *account != "default")
    pod.refuse(pod.path_of("serviceAccountName"),
               "not allowed: workers need no rights; use imagePullSecrets for private images");
  check_security_context(pod);
  for (const auto& [volume, path] : pod.elements("volumes")) {
    if (!volume.is_object()) continue;
    for (const auto& [kind, source] : volume.items())
      if (kind != "name") check_volume_kind(kind, path, pod.problems());
  }
  for (const char* list : {"containers", "initContainers"})
    for (const auto& [value, path] : pod.elements(list))
      check_container(value, path, pod.problems());
  for (const auto& [value, path] : pod.elements("ephemeralContainers"))
    pod.refuse(path, "only for debugging a running pod; remove it");
}

void check_restricted_annotations(JsonFields& metadata) {
  auto annotations = within(metadata, "annotations");
  if (!annotations) return;
  Json values = Json::object();
  metadata.read_object("annotations", values);
  for (const auto& [key, value] : values.items()) {
    if (!key.starts_with(kAppArmorAnnotation)) continue;
    const std::string profile = value.is_string() ? value.get<std::string>() : "";
    if (profile != "runtime/default" && !profile.starts_with("localhost/"))
      refuse(*annotations, annotations->path_of(key), value);
  }
}

void refuse_namespaces(const Json& value, const std::string& path, std::vector<Problem>& problems) {
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      refuse_namespaces(value[i], fmt::format("{}[{}]", path, i), problems);
    return;
  }
  if (!value.is_object()) return;
  for (const auto& [key, inner] : value.items()) {
    const std::string inner_path = path + "." + key;
    if (key == "namespace" || key == "namespaces" || key == "namespaceSelector")
      problems.push_back({inner_path, 0, "a job acts in its own namespace; remove it"});
    else if (key != "labels" && key != "annotations" && key != "matchLabels" &&
             key != "nodeSelector")
      refuse_namespaces(inner, inner_path, problems);
  }
}

}  // namespace coxswain::job
