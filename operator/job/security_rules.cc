#include "operator/job/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "operator/job/json_fields.h"

// https://kubernetes.io/docs/concepts/security/pod-security-standards, as the admission of
// Kubernetes 1.34 has them (k8s.io/pod-security-admission/policy).
namespace coxswain::job {

namespace {

constexpr auto kVolumeKinds =
    std::to_array<std::string_view>({"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral",
                                     "image", "persistentVolumeClaim", "projected", "secret"});

// The sysctls that Kubernetes calls safe.
constexpr auto kSysctls = std::to_array<std::string_view>(
    {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
     "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
     "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
     "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem"});

constexpr std::string_view kAppArmorAnnotation = "container.apparmor.security.beta.kubernetes.io/";

// What a container may add at `baseline`; at `restricted` NET_BIND_SERVICE alone.
constexpr auto kBaselineCapabilities = std::to_array<std::string_view>(
    {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
     "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"});

bool holds(std::span<const std::string_view> words, const Json& value) {
  return value.is_string() && std::ranges::find(words, value.get<std::string>()) != words.end();
}

// "`restricted`", with why it may not be the namespace's own.
std::string level_of(const Installation& installation) {
  const std::string& doubt = installation.pod_security_doubt;
  return fmt::format("`{}`{}", word(installation.pod_security),
                     doubt.empty() ? "" : fmt::format(" ({})", doubt));
}

// The rules of one level.
class Rules {
 public:
  explicit Rules(const Installation& installation)
      : restricted_(installation.pod_security == PodSecurity::kRestricted),
        level_(level_of(installation)) {}

  void check_pod(JsonFields& pod) const {
    for (const char* key : {"hostNetwork", "hostPID", "hostIPC"}) refuse_if(pod, key, true);
    check_security_context(pod);
    for (const auto& [volume, path] : pod.elements("volumes")) {
      if (!volume.is_object()) continue;
      for (const auto& [kind, source] : volume.items())
        if (kind != "name") check_volume(kind, path, pod.problems());
    }
    for (const char* list : {"containers", "initContainers"})
      for (const auto& [value, path] : pod.elements(list))
        check_container(value, path, pod.problems());
    for (const auto& [value, path] : pod.elements("ephemeralContainers"))
      pod.refuse(path, "only for debugging a running pod; remove it");
  }

  void check_annotations(JsonFields& metadata) const {
    auto annotations = within(metadata, "annotations");
    if (!annotations) return;
    Json values = Json::object();
    metadata.read("annotations", values);
    for (const auto& [key, value] : values.items()) {
      if (!key.starts_with(kAppArmorAnnotation)) continue;
      const std::string profile = value.is_string() ? value.get<std::string>() : "";
      if (profile != "runtime/default" && !profile.starts_with("localhost/"))
        refuse(*annotations, annotations->path_of(key), value);
    }
  }

  void check_volume(const std::string& kind, const std::string& path,
                    std::vector<Problem>& problems) const {
    const bool allowed = restricted_ ? std::ranges::find(kVolumeKinds, kind) != kVolumeKinds.end()
                                     : kind != "hostPath";
    if (!allowed)
      problems.push_back({path + "." + kind, 0,
                          fmt::format("not allowed by Pod Security {}; use one of {}", level_,
                                      fmt::join(kVolumeKinds, ", "))});
  }

 private:
  void refuse(JsonFields& fields, const std::string& path, const Json& value) const {
    fields.refuse(path,
                  fmt::format("{} is outside Pod Security {}; remove it", describe(value), level_));
  }

  void refuse_if(JsonFields& fields, const char* key, const Json& forbidden) const {
    const Json* value = fields.find(key);
    if (value && *value == forbidden) refuse(fields, fields.path_of(key), *value);
  }

  void refuse_unless(JsonFields& fields, const char* key,
                     std::initializer_list<std::string_view> allowed) const {
    const Json* value = fields.find(key);
    if (value && !holds(allowed, *value)) refuse(fields, fields.path_of(key), *value);
  }

  // The member as fields of its own, where it is there.
  static std::optional<JsonFields> within(JsonFields& owner, const char* key) {
    const Json* value = owner.find(key);
    if (!value) return std::nullopt;
    return JsonFields(*value, owner.path_of(key), owner.problems());
  }

  void check_capabilities(JsonFields& context) const {
    const Json* value = context.find("capabilities");
    if (!value) return;
    JsonFields capabilities(*value, context.path_of("capabilities"), context.problems());
    for (const auto& [added, path] : capabilities.elements("add")) {
      const bool allowed =
          restricted_ ? added == "NET_BIND_SERVICE" : holds(kBaselineCapabilities, added);
      if (!allowed) refuse(context, path, added);
    }
    const Json* drop = capabilities.find("drop");
    if (restricted_ && drop && drop->is_array() &&
        std::find(drop->begin(), drop->end(), "ALL") == drop->end())
      context.refuse(capabilities.path_of("drop"),
                     fmt::format("must hold ALL, by Pod Security {}; or leave it out", level_));
  }

  void check_selinux(JsonFields& context) const {
    auto options = within(context, "seLinuxOptions");
    if (!options) return;
    refuse_unless(*options, "type",
                  {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"});
    refuse_unless(*options, "user", {""});
    refuse_unless(*options, "role", {""});
  }

  void check_sysctls(JsonFields& context) const {
    for (const auto& [value, path] : context.elements("sysctls")) {
      const Json name = value.is_object() ? value.value("name", Json()) : Json();
      if (!holds(kSysctls, name)) refuse(context, path + ".name", name);
    }
  }

  // The fields that pods and containers have in common, and those of containers alone.
  void check_security_context(JsonFields& owner) const {
    const Json* value = owner.find("securityContext");
    if (!value) return;
    JsonFields context(*value, owner.path_of("securityContext"), owner.problems());
    refuse_if(context, "privileged", true);
    if (restricted_) {
      refuse_if(context, "allowPrivilegeEscalation", true);
      refuse_if(context, "runAsNonRoot", false);
      refuse_if(context, "runAsUser", 0);
    }
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
  void check_handler(JsonFields& owner, const char* key) const {
    auto handler = within(owner, key);
    if (!handler) return;
    for (const char* kind : {"httpGet", "tcpSocket"})
      if (auto action = within(*handler, kind)) refuse_unless(*action, "host", {""});
  }

  void check_container(const Json& value, const std::string& path,
                       std::vector<Problem>& problems) const {
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

  bool restricted_;  // else `baseline`
  std::string level_;
};

bool is_open(const Installation& installation) {
  return installation.pod_security == PodSecurity::kPrivileged;
}

}  // namespace

void check_pod_security(JsonFields& pod, const Installation& installation) {
  if (!is_open(installation)) Rules(installation).check_pod(pod);
}

void check_pod_security_annotations(JsonFields& metadata, const Installation& installation) {
  if (!is_open(installation)) Rules(installation).check_annotations(metadata);
}

void check_volume_kind(const std::string& kind, const std::string& path,
                       const Installation& installation, std::vector<Problem>& problems) {
  if (!is_open(installation)) Rules(installation).check_volume(kind, path, problems);
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
