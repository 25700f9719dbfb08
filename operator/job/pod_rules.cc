#include "operator/job/validation.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <set>
#include <string_view>

#include "operator/job/json_fields.h"
#include "operator/job/quantity.h"
#include "trainer/contract/config/text.h"

// https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/apis/core/validation/validation.go
namespace coxswain::job {

namespace {

constexpr std::size_t kMaxAnnotationBytes = 256 * 1024;

// Fields that take a few words, wherever they are.
struct WordRule {
  std::string_view key;
  std::vector<std::string_view> words;
};

const std::vector<WordRule>& word_rules() {
  static const std::vector<WordRule> rules = {
      {"imagePullPolicy", {"Always", "IfNotPresent", "Never"}},
      {"terminationMessagePolicy", {"File", "FallbackToLogsOnError"}},
      {"protocol", {"TCP", "UDP", "SCTP"}},
      {"scheme", {"HTTP", "HTTPS"}},
      {"dnsPolicy", {"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"}},
      {"effect", {"", "NoSchedule", "PreferNoSchedule", "NoExecute"}},
      {"whenUnsatisfiable", {"DoNotSchedule", "ScheduleAnyway"}},
      {"mountPropagation", {"None", "HostToContainer", "Bidirectional"}},
      {"preemptionPolicy", {"Never", "PreemptLowerPriority"}},
      {"nodeAffinityPolicy", {"Honor", "Ignore"}},
      {"nodeTaintsPolicy", {"Honor", "Ignore"}},
      {"fsGroupChangePolicy", {"OnRootMismatch", "Always"}},
      {"supplementalGroupsPolicy", {"Merge", "Strict"}},
      {"recursiveReadOnly", {"Disabled", "IfPossible", "Enabled"}},
  };
  return rules;
}

// Fields that take whole numbers of a range, wherever they are.
struct NumberRule {
  std::string_view key;
  Range range;
};

constexpr auto kNumberRules = std::to_array<NumberRule>({
    {"activeDeadlineSeconds", {1, 2147483647}},
    {"defaultMode", {0, 0777}},
    {"expirationSeconds", {600, 4294967296}},
    {"failureThreshold", {0, 2147483647}},
    {"fsGroup", {0, 2147483647}},
    {"hostPort", {0, 65535}},
    {"initialDelaySeconds", {0, 2147483647}},
    {"maxSkew", {1, 2147483647}},
    {"minDomains", {1, 2147483647}},
    {"mode", {0, 0777}},
    {"periodSeconds", {0, 2147483647}},
    {"runAsGroup", {0, 2147483647}},
    {"runAsUser", {0, 2147483647}},
    {"successThreshold", {0, 2147483647}},
    {"timeoutSeconds", {0, 2147483647}},
    {"weight", {1, 100}},
});

// Fields that name another object of the namespace, or of the cluster.
constexpr auto kObjectNames =
    std::to_array<std::string_view>({"serviceAccountName", "priorityClassName", "runtimeClassName",
                                     "storageClassName", "nodeName"});

// Maps whose keys are whoever's who writes them.
constexpr auto kFreeMaps = std::to_array<std::string_view>(
    {"annotations", "limits", "requests", "volumeAttributes", "overhead"});

template <class Table>
bool is_among(const Table& table, std::string_view text) {
  return std::find(table.begin(), table.end(), text) != table.end();
}

// How many of the object's fields are given, but for `except`.
int count_fields(const Json& object, std::initializer_list<std::string_view> except = {}) {
  int count = 0;
  for (const auto& [key, value] : object.items())
    count += !value.is_null() && std::find(except.begin(), except.end(), key) == except.end();
  return count;
}

class PodCheck {
 public:
  explicit PodCheck(std::vector<Problem>& problems) : problems_(problems) {}

  // Everything below `value`, which is the field `key`.
  void walk(const Json& value, std::string_view key, const std::string& path) {
    if (key == "matchLabels" || key == "nodeSelector" || key == "labels")
      return check_labels(value, path);
    if (is_among(kFreeMaps, key)) return;
    check_field(value, key, path);
    if (value.is_array())
      for (std::size_t i = 0; i < value.size(); ++i)
        walk_entry(value[i], key, fmt::format("{}[{}]", path, i));
    if (value.is_object())
      for (const auto& [inner, member] : value.items()) walk(member, inner, path + "." + inner);
  }

  void check_labels(const Json& labels, const std::string& path) {
    if (!labels.is_object()) return;
    for (const auto& [key, value] : labels.items()) {
      const std::string place = path + "." + key.substr(0, 80);
      if (!is_qualified_name(key))
        refuse(place,
               "not a label's name ([example.org/]name of letters, digits, '-', '_' and '.')");
      if (value.is_string() && !is_label_value(value.get<std::string>()))
        refuse(place,
               "not a label's value: at most 63 letters, digits, '-', '_' and '.', which "
               "begins and ends with a letter or digit; got " +
                   describe(value));
    }
  }

  void check_annotations(const Json& annotations, const std::string& path) {
    if (!annotations.is_object()) return;
    std::size_t bytes = 0;
    for (const auto& [key, value] : annotations.items()) {
      std::string lower = key;
      std::ranges::transform(lower, lower.begin(),
                             [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      if (!is_qualified_name(lower))
        refuse(path + "." + key.substr(0, 80), "not an annotation's name ([example.org/]name)");
      bytes += key.size() + (value.is_string() ? value.get_ref<const std::string&>().size() : 0);
    }
    if (bytes > kMaxAnnotationBytes)
      refuse(path, fmt::format("at most {} bytes in all, got {}", kMaxAnnotationBytes, bytes));
  }

  // Sources whose object must be named, which an older schema leaves open.
  void check_source(const Json& volume, const std::string& path) {
    const std::pair<const char*, const char*> required[] = {
        {"configMap", "name"}, {"secret", "secretName"}, {"persistentVolumeClaim", "claimName"}};
    for (const auto& [kind, name] : required)
      if (volume.contains(kind) && text_at(volume.at(kind), name).empty())
        refuse(fmt::format("{}.{}.{}", path, kind, name), "required");
  }

  // Of a container, or of a whole pod. Beyond cpu and memory things come in wholes, and can't be
  // promised twice.
  void check_resources(const Json& owner, const std::string& owner_path) {
    if (!owner.contains("resources") || !owner.at("resources").is_object()) return;
    const Json& resources = owner.at("resources");
    const std::string path = owner_path + ".resources";
    const Json limits = resources.value("limits", Json::object());
    const Json requests = resources.value("requests", Json::object());
    if (!limits.is_object() || !requests.is_object()) return;
    for (const auto& [kind, amounts] :
         {std::pair("limits", limits), std::pair("requests", requests)})
      for (const auto& [name, value] : amounts.items())
        check_amount(name, value, limits, fmt::format("{}.{}.{}", path, kind, name.substr(0, 80)));
  }

 private:
  void refuse(const std::string& path, std::string message) {
    problems_.push_back({path, 0, std::move(message)});
  }

  void check_field(const Json& value, std::string_view key, const std::string& path) {
    if (value.is_string() && value.get_ref<const std::string&>().find('\0') != std::string::npos)
      refuse(path, "holds a NUL: " + contract::quote(value.get_ref<const std::string&>()));
    for (const auto& [name, words] : word_rules())
      if (name == key && value.is_string() && !is_among(words, value.get<std::string>()))
        refuse(path,
               fmt::format("must be one of {}; got {}", fmt::join(words, ", "), describe(value)));
    for (const auto& [name, range] : kNumberRules)
      if (name == key && value.is_number_integer() &&
          (value.get<std::int64_t>() < range.min || value.get<std::int64_t>() > range.max))
        refuse(path, fmt::format("must be {} to {}, got {}", range.min, range.max, value.dump()));
    if (is_among(kObjectNames, key) && value.is_string()) {
      const auto name = value.get<std::string>();
      if (!name.empty() && !is_dns_subdomain(name))
        refuse(path, "not a name of an object: " + contract::quote(name));
    }
    if ((key == "hostname" || key == "subdomain") && value.is_string() &&
        !is_dns_label(value.get<std::string>()))
      refuse(path, "not a name of a host: " + describe(value));
    if (key == "valueFrom" && value.is_object() && count_fields(value) != 1)
      refuse(path, "must name one source");
    if (key.ends_with("Probe") && value.is_object()) check_probe(value, path);
    if ((key == "postStart" || key == "preStop") && value.is_object() &&
        count_fields(value, {"stopSignal"}) != 1)
      refuse(path, "must name one handler");
    if (key == "port") check_port(value, path);
    if (key == "conditionType" && value.is_string() && !is_qualified_name(value.get<std::string>()))
      refuse(path, "not a name ([example.org/]name): " + describe(value));
    if ((key == "seccompProfile" || key == "appArmorProfile") && value.is_object() &&
        (text_at(value, "type") == "Localhost") == text_at(value, "localhostProfile").empty())
      refuse(path + ".localhostProfile", "required with the type Localhost, and only then");
  }

  void walk_entry(const Json& entry, std::string_view list, const std::string& path) {
    if (entry.is_object()) check_entry(entry, list, path);
    walk(entry, "", path);
  }

  void check_entry(const Json& entry, std::string_view list, const std::string& path) {
    if (list == "containers" || list == "initContainers") check_container(entry, list, path);
    if (list == "volumes") check_volume(entry, path);
    if (list == "env" && entry.contains("value") && entry.contains("valueFrom"))
      if (!text_at(entry, "value").empty()) refuse(path, "must have value or valueFrom, not both");
    if (list == "envFrom" && count_fields(entry, {"prefix"}) != 1)
      refuse(path, "must name one source");
    if (list == "volumeMounts") check_mount(entry, path);
    if (list == "tolerations") check_toleration(entry, path);
    if (list == "matchExpressions" || list == "matchFields") check_expression(entry, path);
    if (list == "hostAliases" && !is_address(text_at(entry, "ip")))
      refuse(path + ".ip", "not an address: " + contract::quote(text_at(entry, "ip")));
    if (list == "imagePullSecrets" && !is_dns_subdomain(text_at(entry, "name")))
      refuse(path + ".name", "not a name of an object: " + contract::quote(text_at(entry, "name")));
  }

  void check_container(const Json& container, std::string_view list, const std::string& path) {
    const std::string name = text_at(container, "name");
    if (!name.empty() && !is_dns_label(name))
      refuse(path + ".name",
             "must be at most 63 lower-case letters, digits and '-', got " + contract::quote(name));
    if (list == "containers" && text_at(container, "restartPolicy") != "" &&
        text_at(container, "restartPolicy") != "Never")
      refuse(path + ".restartPolicy", "must be Never: the operator restarts whole gangs");
    if (list == "initContainers" && !names_.insert(name).second)
      refuse(path + ".name", "a second container named " + contract::quote(name));
    if (list == "containers") names_.insert(name);
    for (const char* key : {"lifecycle", "livenessProbe", "readinessProbe", "startupProbe"})
      if (list == "initContainers" && container.contains(key) &&
          text_at(container, "restartPolicy") != "Always")
        refuse(path + "." + key, "not of a container that ends; or set restartPolicy: Always");
    check_resources(container, path);
    std::set<std::string> ports;
    if (!container.contains("ports") || !container.at("ports").is_array()) return;
    for (std::size_t i = 0; i < container.at("ports").size(); ++i) {
      const std::string port = text_at(container.at("ports")[i], "name");
      const std::string place = fmt::format("{}.ports[{}].name", path, i);
      if (!port.empty() && !is_port_name(port))
        refuse(place, "must be at most 15 lower-case letters, digits and '-', with a letter; got " +
                          contract::quote(port));
      if (!port.empty() && !ports.insert(port).second)
        refuse(place, "a second port named " + contract::quote(port));
    }
  }

  // https://www.rfc-editor.org/rfc/rfc6335#section-5.1
  static bool is_port_name(std::string_view text) {
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    return text.size() <= 15 && is_dns_label(text) && std::ranges::any_of(text, is_letter) &&
           text.find("--") == std::string_view::npos;
  }

  void check_port(const Json& value, const std::string& path) {
    if (value.is_number_integer() &&
        (value.get<std::int64_t>() < 1 || value.get<std::int64_t>() > 65535))
      refuse(path, "must be 1 to 65535, got " + value.dump());
    if (value.is_string() && !is_port_name(value.get<std::string>()))
      refuse(path, "must be a number or the name of a port, got " + describe(value));
  }

  void check_volume(const Json& volume, const std::string& path) {
    if (!is_dns_label(text_at(volume, "name")))
      refuse(path + ".name", "must be at most 63 lower-case letters, digits and '-', got " +
                                 contract::quote(text_at(volume, "name")));
    if (count_fields(volume, {"name"}) > 1) refuse(path, "must name one source, as emptyDir: {}");
    check_source(volume, path);
  }

  void check_mount(const Json& mount, const std::string& path) {
    const std::string place = text_at(mount, "mountPath");
    if (place.empty()) refuse(path + ".mountPath", "required");
    for (const char* key : {"subPath", "subPathExpr"}) {
      const std::string inner = "/" + text_at(mount, key) + "/";
      if (inner.starts_with("//") && inner != "//")
        refuse(path + "." + key, "must be a relative path");
      if (inner.find("/../") != std::string::npos) refuse(path + "." + key, "must not hold '..'");
    }
  }

  void check_toleration(const Json& toleration, const std::string& path) {
    const std::string key = text_at(toleration, "key");
    const std::string how = text_at(toleration, "operator");
    const bool exists = how == "Exists";
    if (!key.empty() && !is_qualified_name(key))
      refuse(path + ".key", "not a taint's name: " + contract::quote(key));
    if (key.empty() && (how.empty() || how == "Equal"))
      refuse(path + ".operator", "must be Exists where there is no key");
    if (exists && !text_at(toleration, "value").empty())
      refuse(path + ".value", "must be empty with the operator Exists");
    if (!is_label_value(text_at(toleration, "value")))
      refuse(path + ".value",
             "not a taint's value: " + contract::quote(text_at(toleration, "value")));
    if (toleration.contains("tolerationSeconds") && text_at(toleration, "effect") != "NoExecute")
      refuse(path + ".effect", "must be NoExecute with tolerationSeconds");
  }

  void check_expression(const Json& expression, const std::string& path) {
    const std::string how = text_at(expression, "operator");
    const bool on_nodes = path.find(".nodeAffinity.") != std::string::npos;
    std::vector<std::string_view> known = {"In", "NotIn", "Exists", "DoesNotExist"};
    if (on_nodes) known.insert(known.end(), {"Gt", "Lt"});
    if (!is_among(known, how))
      return refuse(path + ".operator", fmt::format("must be one of {}; got {}",
                                                    fmt::join(known, ", "), contract::quote(how)));
    const bool has_values = expression.contains("values") && !expression.at("values").empty();
    const bool wants_values = how != "Exists" && how != "DoesNotExist";
    if (wants_values != has_values)
      refuse(path + ".values", wants_values ? "required with the operator " + how
                                            : "must be left out with the operator " + how);
    if ((how == "Gt" || how == "Lt") && has_values && expression.at("values").size() != 1)
      refuse(path + ".values", "must be one value with the operator " + how);
    if (!is_qualified_name(text_at(expression, "key")))
      refuse(path + ".key", "not a label's name: " + contract::quote(text_at(expression, "key")));
  }

  void check_amount(const std::string& name, const Json& value, const Json& limits,
                    const std::string& path) {
    const bool huge_pages = name.starts_with("hugepages-");
    if (name == "cpu" || name == "memory" || name == "ephemeral-storage") return;
    if (!is_qualified_name(name) || (name.find('/') == std::string::npos && !huge_pages))
      return refuse(path,
                    "not a resource of a container: cpu, memory, ephemeral-storage, or with a "
                    "domain, as nvidia.com/gpu");
    const auto amount = quantity_of(value);
    if (amount && *amount != std::floor(*amount))
      refuse(path, "must be a whole number, got " + describe(value));
    if (!limits.contains(name) || quantity_of(limits.at(name)) != amount)
      refuse(path, "must have a limit of the same amount: it can't be shared");
  }

  void check_probe(const Json& probe, const std::string& path) {
    int handlers = 0;
    for (const char* kind : {"exec", "grpc", "httpGet", "tcpSocket"})
      handlers += probe.contains(kind) && !probe.at(kind).is_null();
    if (handlers != 1) refuse(path, "must have one of exec, grpc, httpGet and tcpSocket");
  }

  static bool is_address(const std::string& text) {
    std::array<unsigned char, sizeof(in6_addr)> address{};
    return inet_pton(AF_INET, text.c_str(), address.data()) == 1 ||
           inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
  }

  std::vector<Problem>& problems_;
  std::set<std::string> names_;  // of containers: "containers" comes before "initContainers"
};

// Those by which the operator knows its pods: it would write its own over them.
void refuse_own_labels(const Json& metadata, const std::string& path,
                       std::vector<Problem>& problems) {
  if (!metadata.is_object() || !metadata.contains("labels") || !metadata.at("labels").is_object())
    return;
  for (const auto& [key, value] : metadata.at("labels").items())
    if (key.starts_with("coxswain.dev/") || key.starts_with("training.kubeflow.org/"))
      problems.push_back(
          {path + "." + key.substr(0, 80), 0, "the operator's own label; remove it"});
}

}  // namespace

void check_pod(const Json& pod_template, const std::string& path, std::vector<Problem>& problems) {
  if (!pod_template.is_object()) return;
  if (pod_template.contains("metadata")) {
    check_metadata(pod_template.at("metadata"), path + ".metadata", problems);
    refuse_own_labels(pod_template.at("metadata"), path + ".metadata.labels", problems);
  }
  if (!pod_template.contains("spec")) return;
  PodCheck check(problems);
  check.walk(pod_template.at("spec"), "", path + ".spec");
  check.check_resources(pod_template.at("spec"), path + ".spec");
}

void check_volume(const Json& source, const std::string& path, std::vector<Problem>& problems) {
  PodCheck check(problems);
  check.check_source(source, path);
  check.walk(source, "", path);
}

void check_metadata(const Json& metadata, const std::string& path, std::vector<Problem>& problems) {
  if (!metadata.is_object()) return;
  PodCheck check(problems);
  if (metadata.contains("labels")) check.check_labels(metadata.at("labels"), path + ".labels");
  if (metadata.contains("annotations"))
    check.check_annotations(metadata.at("annotations"), path + ".annotations");
}

}  // namespace coxswain::job
