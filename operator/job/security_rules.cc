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

void check_capabilities(JsonFields& context) {
  const Json* value = context.find("capabilities");
  if (!value) return;
  JsonFields capabilities(*value, context.path_of("capabilities"), context.problems());
  for (const auto& [added, path] : capabilities.elements("add"))
    if (added != "NET_BIND_SERVICE") refuse(context, path, added);
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
  if (const Json* profile = context.find("seccompProfile")) {
    JsonFields seccomp(*profile, context.path_of("seccompProfile"), context.problems());
    refuse_unless(seccomp, "type", {"RuntimeDefault", "Localhost"});
  }
  if (const Json* windows = context.find("windowsOptions")) {
    JsonFields options(*windows, context.path_of("windowsOptions"), context.problems());
    refuse_if(options, "hostProcess", true);
  }
  if (const Json* selinux = context.find("seLinuxOptions"))
    refuse(context, context.path_of("seLinuxOptions"), *selinux);
  for (const auto& [sysctl, path] : context.elements("sysctls")) refuse(context, path, sysctl);
}

void check_container(const Json& value, const std::string& path, std::vector<Problem>& problems) {
  JsonFields container(value, path, problems);
  check_security_context(container);
  for (const auto& [port, port_path] : container.elements("ports"))
    if (port.is_object() && port.contains("hostPort"))
      refuse(container, port_path + ".hostPort", port.at("hostPort"));
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
