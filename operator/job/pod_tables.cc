#include "operator/job/pod_tables.h"

#include <array>

#include "operator/job/text_forms.h"
#include "operator/job/validation.h"

namespace coxswain::job {

std::span<const WordRule> word_rules() {
  static const std::vector<WordRule> rules = {
      {"imagePullPolicy", {"Always", "IfNotPresent", "Never", ""}},
      {"image.pullPolicy", {"Always", "IfNotPresent", "Never", ""}},
      {"terminationMessagePolicy", {"File", "FallbackToLogsOnError", ""}},
      {"protocol", {"TCP", "UDP", "SCTP", ""}},
      {"scheme", {"HTTP", "HTTPS", ""}},
      {"dnsPolicy", {"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None", ""}},
      {"effect", {"NoSchedule", "PreferNoSchedule", "NoExecute", ""}},
      {"whenUnsatisfiable", {"DoNotSchedule", "ScheduleAnyway"}},
      {"mountPropagation", {"None", "HostToContainer", "Bidirectional"}},
      {"preemptionPolicy", {"Never", "PreemptLowerPriority"}},
      {"nodeAffinityPolicy", {"Honor", "Ignore"}},
      {"nodeTaintsPolicy", {"Honor", "Ignore"}},
      {"fsGroupChangePolicy", {"OnRootMismatch", "Always"}},
      {"seLinuxChangePolicy", {"MountOption", "Recursive"}},
      {"supplementalGroupsPolicy", {"Merge", "Strict"}},
      {"recursiveReadOnly", {"Disabled", "IfPossible", "Enabled"}},
      {"procMount", {"Default", "Unmasked"}},
      {"seccompProfile.type", {"RuntimeDefault", "Localhost", "Unconfined"}},
      {"appArmorProfile.type", {"RuntimeDefault", "Localhost", "Unconfined"}},
      {"resizePolicy[].resourceName", {"cpu", "memory"}},
      {"resizePolicy[].restartPolicy", {"NotRequired"}},  // of a pod that is not restarted
      {"accessModes[]", {"ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany"}},
      {"volumeMode", {"Filesystem", "Block"}},
      {"hostPath.type",
       {"", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice",
        "BlockDevice"}},
      {"azureDisk.cachingMode", {"None", "ReadOnly", "ReadWrite"}},
      {"azureDisk.kind", {"Shared", "Dedicated", "Managed"}},
      {"fieldRef.apiVersion", {"v1", ""}},
      {"matchFields[].key", {"metadata.name"}},
      {"matchFields[].operator", {"In", "NotIn"}},
  };
  return rules;
}

std::span<const NumberRule> number_rules() {
  static constexpr auto rules = std::to_array<NumberRule>({
      {"activeDeadlineSeconds", {1, 2147483647}},
      {"defaultMode", {0, 0777}},
      {"expirationSeconds", {600, 4294967296}},
      {"failureThreshold", {0, 2147483647}},
      {"fsGroup", {0, 2147483647}},
      {"hostPort", {0, 65535}},
      {"initialDelaySeconds", {0, 2147483647}},
      {"lun", {0, 255}},
      {"maxSkew", {1, 2147483647}},
      {"minDomains", {1, 2147483647}},
      {"mode", {0, 0777}},
      {"periodSeconds", {0, 2147483647}},
      {"runAsGroup", {0, 2147483647}},
      {"runAsUser", {0, 2147483647}},
      {"supplementalGroups[]", {0, 2147483647}},
      {"successThreshold", {0, 2147483647}},
      {"livenessProbe.successThreshold", {0, 1}},
      {"startupProbe.successThreshold", {0, 1}},
      {"Probe.terminationGracePeriodSeconds", {1, 2147483647}},
      {"timeoutSeconds", {0, 2147483647}},
      {"weight", {1, 100}},
  });
  return rules;
}

std::span<const FormRule> form_rules() {
  static constexpr std::string_view object = "the name of an object";
  static constexpr std::string_view label = "at most 63 lower-case letters, digits and '-'";
  static constexpr std::string_view name = "a name ([example.org/]name)";
  static constexpr std::string_view inside = "a relative path without '..'";
  static constexpr std::string_view field =
      "metadata.name, metadata.labels['x'], status.podIP or the like";
  static constexpr std::string_view address = "an IP address";
  static constexpr std::string_view key =
      "letters, digits, '-', '_' and '.', not beginning with '..'";
  static constexpr auto rules = std::to_array<FormRule>({
      {"serviceAccountName", is_dns_subdomain, object},
      {"priorityClassName", is_dns_subdomain, object},
      {"runtimeClassName", is_dns_subdomain, object},
      {"storageClassName", is_dns_subdomain, object},
      {"volumeAttributesClassName", is_dns_subdomain, object},
      {"nodeName", is_dns_subdomain, object},
      {"resourceClaimName", is_dns_subdomain, object},
      {"resourceClaimTemplateName", is_dns_subdomain, object},
      {"imagePullSecrets[].name", is_dns_subdomain, object},
      {"nodePublishSecretRef.name", is_dns_subdomain, object},
      {"matchFields[].values[]", is_dns_subdomain, "the name of a node"},
      {"apiGroup", is_dns_subdomain, "the name of a group of APIs"},
      {"hostname", is_dns_label, label},
      {"subdomain", is_dns_label, label},
      {"volumes[].name", is_dns_label, label},
      {"containers[].name", is_dns_label, label},
      {"initContainers[].name", is_dns_label, label},
      {"ports[].name", is_port_name,
       "at most 15 lower-case letters, digits and '-', with a letter"},
      {"resourceClaims[].name", is_dns_label, label},
      {"claims[].request", is_dns_label, label},
      {"conditionType", is_qualified_name, name},
      {"schedulingGates[].name", is_qualified_name, name},
      {"tolerations[].key", is_qualified_name, name},
      {"tolerations[].value", is_label_value, "the value of a taint"},
      {"matchExpressions[].key", is_qualified_name, name},
      {"nodeSelectorTerms[].matchExpressions[].values[]", is_label_value, "the value of a label"},
      {"elector.matchExpressions[].values[]", is_label_value, "the value of a label"},
      {"requiredDuringSchedulingIgnoredDuringExecution[].topologyKey", is_qualified_name, name},
      {"podAffinityTerm.topologyKey", is_qualified_name, name},
      {"atchLabelKeys[]", is_qualified_name, name},
      {"hostAliases[].ip", is_address, address},
      {"hostAliases[].hostnames[]", is_dns_subdomain, "the name of a host"},
      {"nameservers[]", is_address, address},
      {"searches[]", is_search_domain, "a domain"},
      {"envFrom[].prefix", is_variable_prefix, "the beginning of a variable's name, without '='"},
      {"KeyRef.key", is_key, key},
      {"httpHeaders[].name", is_header, "letters, digits and '-'"},
      {"sysctls[].name", is_sysctl, "the name of a sysctl, as net.core.somaxconn"},
      {".csi.driver", is_driver, "the name of a driver, as example.org: at most 63 characters"},
      {"subPath", is_inner_path, inside},
      {"subPathExpr", is_inner_path, inside},
      {"seccompProfile.localhostProfile", is_inner_path, inside},
      {"appArmorProfile.localhostProfile", is_profile, "the name of a profile, without blanks"},
      {"items[].path", is_file_path, inside},
      {"serviceAccountToken.path", is_file_path, inside},
      {"clusterTrustBundle.path", is_file_path, inside},
      {"hostPath.path", stays_below, "a path without '..'"},
      {"devicePath", stays_below, "a path without '..'"},
      {"nfs.path", is_absolute, "an absolute path"},
      {"azureDisk.diskURI", is_azure_disk, "a URI: https://... or /subscriptions/..."},
      {"iscsi.iqn", is_iscsi_name, "a name that begins with iqn., eui. or naa."},
      {"emptyDir.sizeLimit", is_amount, "a quantity, at least 0"},
      {"volumeClaimTemplate.spec.resources.requests.storage", is_positive, "a quantity above 0"},
      {"env[].valueFrom.fieldRef.fieldPath", is_field, field},
      {"items[].fieldRef.fieldPath", is_field_of_file, field},
      {"resourceFieldRef.resource", is_resource_field, "limits.cpu, requests.memory or the like"},
      {"resourceFieldRef.divisor", is_divisor, "1m, 1, 1k, 1Ki, 1M or the like"},
  });
  return rules;
}

std::span<const RequiredRule> required_rules() {
  static const std::vector<RequiredRule> rules = {
      {"volumes[]", {"name"}},
      {"configMap", {"name"}},
      {"volumes[].secret", {"secretName"}},
      {"volume.secret", {"secretName"}},
      {"sources[].secret", {"name"}},
      {"persistentVolumeClaim", {"claimName"}},
      {"hostPath", {"path"}},
      {".image", {"reference"}},
      {".csi", {"driver"}},
      {"nodePublishSecretRef", {"name"}},
      {"ephemeral", {"volumeClaimTemplate"}},
      {"volumeClaimTemplate.spec", {"accessModes", "resources.requests.storage"}},
      {"dataSource", {"kind", "name"}},
      {"dataSourceRef", {"kind", "name"}},
      {"items[]", {"path"}},
      {"secret.items[]", {"key"}},
      {"configMap.items[]", {"key"}},
      {"items[].resourceFieldRef", {"containerName"}},
      {"serviceAccountToken", {"path"}},
      {".nfs", {"server", "path"}},
      {"iscsi", {"targetPortal", "iqn"}},
      {"cephfs", {"monitors"}},
      {".rbd", {"monitors", "image"}},
      {"glusterfs", {"endpoints", "path"}},
      {"cinder", {"volumeID"}},
      {"cinder.secretRef", {"name"}},
      {"flexVolume", {"driver"}},
      {"azureFile", {"secretName", "shareName"}},
      {"azureDisk", {"diskName", "diskURI"}},
      {"awsElasticBlockStore", {"volumeID"}},
      {"gcePersistentDisk", {"pdName"}},
      {"vsphereVolume", {"volumePath"}},
      {"portworxVolume", {"volumeID"}},
      {"photonPersistentDisk", {"pdID"}},
      {"quobyte", {"registry", "volume"}},
      {"scaleIO", {"gateway", "system", "volumeName"}},
      {"storageos", {"volumeName"}},
      {"gitRepo", {"repository"}},
      {"volumeMounts[]", {"mountPath"}},
      {"volumeDevices[]", {"devicePath"}},
      {"fieldRef", {"fieldPath"}},
      {"resourceFieldRef", {"resource"}},
      {"KeyRef", {"key"}},
      {".exec", {"command"}},
      {"httpHeaders[]", {"name"}},
      {"claims[]", {"name"}},
      {"hostAliases[]", {"ip"}},
      {"schedulingGates[]", {"name"}},
      {"imagePullSecrets[]", {"name"}},
      {"readinessGates[]", {"conditionType"}},
      {"options[]", {"name"}},
      {"sysctls[]", {"name"}},
      {"seccompProfile", {"type"}},
      {"appArmorProfile", {"type"}},
      {"matchExpressions[]", {"key"}},
      {"topologySpreadConstraints[]", {"topologyKey"}},
      {"requiredDuringSchedulingIgnoredDuringExecution[]", {"topologyKey"}},
      {"podAffinityTerm", {"topologyKey"}},
      {"nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms"}},
  };
  return rules;
}

std::span<const ChoiceRule> choice_rules() {
  static const std::string_view handler = "must have one of exec, grpc, httpGet and tcpSocket";
  static const std::string_view source = "must name one source";
  static const std::vector<ChoiceRule> rules = {
      {"valueFrom", 1, 1, {}, source},
      {"envFrom[]", 1, 1, {"prefix"}, source},
      {"volumes[]", 0, 1, {"name"}, "must name one source, as emptyDir: {}"},
      {"projected.sources[]", 0, 1, {}, source},
      {"downwardAPI.items[]", 1, 1, {"path", "mode"}, "must name fieldRef or resourceFieldRef"},
      {"resourceClaims[]",
       1,
       1,
       {"name"},
       "must name resourceClaimName or resourceClaimTemplateName"},
      {".fc", 1, 1, {"fsType", "lun", "readOnly"}, "must name targetWWNs or wwids"},
      {"postStart", 1, 1, {}, "must name one handler"},
      {"preStop", 1, 1, {}, "must name one handler"},
      {"Probe",
       1,
       1,
       {"failureThreshold", "initialDelaySeconds", "periodSeconds", "successThreshold",
        "terminationGracePeriodSeconds", "timeoutSeconds"},
       handler},
  };
  return rules;
}

std::span<const UniqueRule> unique_rules() {
  static constexpr auto rules = std::to_array<UniqueRule>({
      {"schedulingGates", "name"},
      {"sysctls", "name"},
      {"volumeDevices", "name"},
      {"volumeDevices", "devicePath"},
      {"resizePolicy", "resourceName"},
  });
  return rules;
}

std::span<const LengthRule> length_rules() {
  static constexpr auto rules =
      std::to_array<LengthRule>({{"dnsConfig.nameservers", 3}, {"dnsConfig.searches", 32}});
  return rules;
}

std::span<const ConflictRule> conflict_rules() {
  static const std::vector<ConflictRule> rules = {
      {"spec", {"!dnsConfig.nameservers", "dnsPolicy=None"}, "required with dnsPolicy: None"},
      {"spec", {"nodeName", "schedulingGates"}, "must be left out with schedulingGates"},
      {"spec", {"shareProcessNamespace=true", "hostPID=true"}, "must be false with hostPID"},
      {"spec", {"hostNetwork=true", "hostUsers=false"}, "must be false with hostUsers: false"},
      {"spec", {"hostPID=true", "hostUsers=false"}, "must be false with hostUsers: false"},
      {"spec", {"hostIPC=true", "hostUsers=false"}, "must be false with hostUsers: false"},
      {"spec", {"resources.claims"}, "stands in the resources of containers; move it there"},
      {"ontainers[]",
       {"volumeDevices", "/hostUsers=false"},
       "must be left out with hostUsers: false"},
      {"containers[]",
       {"restartPolicy", "restartPolicy!=Never"},
       "must be Never: the operator restarts whole gangs"},
      {"initContainers[]",
       {"lifecycle", "restartPolicy!=Always"},
       "not of a container that ends; or set restartPolicy: Always"},
      {"initContainers[]",
       {"livenessProbe", "restartPolicy!=Always"},
       "not of a container that ends; or set restartPolicy: Always"},
      {"initContainers[]",
       {"readinessProbe", "restartPolicy!=Always"},
       "not of a container that ends; or set restartPolicy: Always"},
      {"initContainers[]",
       {"startupProbe", "restartPolicy!=Always"},
       "not of a container that ends; or set restartPolicy: Always"},
      {"readinessProbe",
       {"terminationGracePeriodSeconds"},
       "only of livenessProbe and startupProbe; remove it"},
      {"env[]", {"value", "valueFrom"}, "must be left out with valueFrom"},
      {"volumeMounts[]", {"subPathExpr", "subPath"}, "must be left out with subPath"},
      {"volumeMounts[]", {"recursiveReadOnly=Enabled", "readOnly!=true"}, "needs readOnly: true"},
      {"volumeMounts[]",
       {"recursiveReadOnly=IfPossible", "readOnly!=true"},
       "needs readOnly: true"},
      {"volumeMounts[]",
       {"mountPropagation", "mountPropagation!=None", "recursiveReadOnly",
        "recursiveReadOnly!=Disabled"},
       "must be None with recursiveReadOnly"},
      {"topologySpreadConstraints[]",
       {"minDomains", "whenUnsatisfiable!=DoNotSchedule"},
       "only with whenUnsatisfiable: DoNotSchedule"},
      {"topologySpreadConstraints[]",
       {"matchLabelKeys", "!labelSelector"},
       "only with labelSelector"},
      {"requiredDuringSchedulingIgnoredDuringExecution[]",
       {"matchLabelKeys", "!labelSelector"},
       "only with labelSelector"},
      {"requiredDuringSchedulingIgnoredDuringExecution[]",
       {"mismatchLabelKeys", "!labelSelector"},
       "only with labelSelector"},
      {"podAffinityTerm", {"matchLabelKeys", "!labelSelector"}, "only with labelSelector"},
      {"podAffinityTerm", {"mismatchLabelKeys", "!labelSelector"}, "only with labelSelector"},
      {"tolerations[]", {"value", "operator=Exists"}, "must be empty with the operator Exists"},
      {"tolerations[]", {"!operator", "!key"}, "must be Exists where there is no key"},
      {"tolerations[]", {"operator=Equal", "!key"}, "must be Exists where there is no key"},
      {"tolerations[]",
       {"effect!=NoExecute", "tolerationSeconds"},
       "must be NoExecute with tolerationSeconds"},
      {"ecurityContext", {"windowsOptions", "/os.name=linux"}, "not of a Linux pod; remove it"},
      {"securityContext",
       {"allowPrivilegeEscalation=false", "privileged=true"},
       "can't be false with privileged: true"},
      {"securityContext",
       {"allowPrivilegeEscalation=false", "capabilities.add=CAP_SYS_ADMIN"},
       "can't be false with the capability CAP_SYS_ADMIN"},
      {"securityContext", {"procMount=Unmasked", "/hostUsers!=false"}, "needs hostUsers: false"},
      {"Profile", {"!localhostProfile", "type=Localhost"}, "required with the type Localhost"},
      {"Profile", {"localhostProfile", "type!=Localhost"}, "only with the type Localhost"},
      {"volumeClaimTemplate.spec",
       {"accessModes!=ReadWriteOncePod", "accessModes=ReadWriteOncePod"},
       "ReadWriteOncePod stands alone"},
      {"dataSource",
       {"kind!=PersistentVolumeClaim", "kind", "!apiGroup"},
       "must be PersistentVolumeClaim without an apiGroup"},
      {"dataSourceRef",
       {"kind!=PersistentVolumeClaim", "kind", "!apiGroup"},
       "must be PersistentVolumeClaim without an apiGroup"},
      {".fc", {"!lun", "targetWWNs"}, "required with targetWWNs"},
      {"iscsi", {"!secretRef", "chapAuthDiscovery=true"}, "required with chapAuthDiscovery"},
      {"iscsi", {"!secretRef", "chapAuthSession=true"}, "required with chapAuthSession"},
      {"resourceFieldRef",
       {"divisor=1m", "resource!=limits.cpu", "resource!=requests.cpu"},
       "1m is for cpu alone"},
      {"matchExpressions[]", {"!values", "operator=In"}, "required with the operator In"},
      {"matchExpressions[]", {"!values", "operator=NotIn"}, "required with the operator NotIn"},
      {"matchExpressions[]",
       {"values", "operator=Exists"},
       "must be left out with the operator Exists"},
      {"matchExpressions[]",
       {"values", "operator=DoesNotExist"},
       "must be left out with the operator DoesNotExist"},
  };
  return rules;
}

}  // namespace coxswain::job
