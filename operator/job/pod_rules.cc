#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <set>
#include <string_view>

#include "operator/job/json_fields.h"
#include "operator/job/text_forms.h"
#include "operator/job/validation.h"
#include "trainer/contract/config/text.h"

// https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/apis/core/validation/validation.go,
// beyond what pod_tables.h says.
namespace coxswain::job {

namespace {

constexpr std::size_t kMaxAnnotationBytes = 256 * 1024;

// Maps whose keys are whoever's who writes them.
constexpr auto kFreeMaps = std::to_array<std::string_view>(
    {"limits", "requests", "volumeAttributes", "overhead", "options"});

// The requests of a claim are not: there is but the storage.
constexpr std::string_view kClaim = "volumeClaimTemplate.spec.resources.requests";

bool is_free(const Json& value, std::string_view key, std::string_view place) {
  return value.is_object() && std::ranges::find(kFreeMaps, key) != kFreeMaps.end() &&
         !place.ends_with(kClaim);
}

bool is_profile_of_seccomp(std::string_view text) {
  constexpr std::string_view kLocal = "localhost/";
  if (text.starts_with(kLocal)) return is_inner_path(text.substr(kLocal.size()));
  return text == "runtime/default" || text == "docker/default" || text == "unconfined";
}

bool is_profile_of_app_armor(std::string_view text) {
  return text.empty() || text == "runtime/default" || text == "unconfined" ||
         text.starts_with("localhost/");
}

bool is_32_bits(std::string_view text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_json(std::string_view text) { return Json::accept(text); }

// Annotations that the API server reads, by how they begin.
struct AnnotationRule {
  std::string_view begins;
  bool (*fits)(std::string_view);
  std::string_view form;
};

constexpr std::string_view kAppArmor = "container.apparmor.security.beta.kubernetes.io/";
constexpr std::string_view kSeccompForm = "runtime/default, unconfined or localhost/PROFILE";

constexpr auto kAnnotationRules = std::to_array<AnnotationRule>({
    {"controller.kubernetes.io/pod-deletion-cost", is_32_bits, "an integer of 32 bits"},
    {"seccomp.security.alpha.kubernetes.io/pod", is_profile_of_seccomp, kSeccompForm},
    {"container.seccomp.security.alpha.kubernetes.io/", is_profile_of_seccomp, kSeccompForm},
    {kAppArmor, is_profile_of_app_armor, kSeccompForm},
    {"scheduler.alpha.kubernetes.io/tolerations", is_json, "JSON"},
});

class PodCheck {
 public:
  // `spec` is the pod's.
  PodCheck(const Json& spec, std::vector<Problem>& problems) : spec_(spec), problems_(problems) {}

  // Everything below `value`, which is the field `key`; `place` is its path without indices.
  void walk(const Json& value, std::string_view key, const std::string& place,
            const std::string& path) {
    if (key == "matchLabels" || key == "nodeSelector" || key == "labels")
      return check_labels(value, path);
    if (key == "annotations") return check_annotations(value, path);
    if (is_free(value, key, place)) return;
    check_by_tables(value, place, path, spec_, problems_);
    if (value.is_string() && value.get_ref<const std::string&>().find('\0') != std::string::npos)
      refuse(path, "holds a NUL: " + contract::quote(value.get_ref<const std::string&>()));
    if (key == "port") check_port(value, path);
    if (value.is_array())
      for (std::size_t i = 0; i < value.size(); ++i) {
        const std::string inner = fmt::format("{}[{}]", path, i);
        if (key == "matchExpressions" || key == "matchFields")
          check_expression(value[i], key, inner);
        walk(value[i], "", place + "[]", inner);
      }
    if (value.is_object())
      for (const auto& [inner, member] : value.items())
        walk(member, inner, place + "." + inner, path + "." + inner);
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

  // Those of a template, that is.
  void check_pod_annotations(const Json& annotations, const std::string& path) {
    if (!annotations.is_object()) return;
    std::set<std::string> containers;
    for (const char* list : {"containers", "initContainers"})
      for (const Json& container : list_at(spec_, list))
        containers.insert(text_at(container, "name"));
    for (const auto& [key, value] : annotations.items()) {
      const std::string text = value.is_string() ? value.get<std::string>() : "";
      const std::string place = path + "." + key.substr(0, 80);
      for (const auto& [begins, fits, form] : kAnnotationRules)
        if (key.starts_with(begins) && !fits(text))
          refuse(place, fmt::format("must be {}; got {}", form, describe(value)));
      if (key.starts_with(kAppArmor) && !containers.contains(key.substr(kAppArmor.size())))
        refuse(place, "no container of this name");
      if (key == "kubernetes.io/config.mirror" && text_at(spec_, "nodeName").empty())
        refuse(place, "only of a pod with nodeName; remove it");
    }
  }

 private:
  void refuse(const std::string& path, std::string message) {
    problems_.push_back({path, 0, std::move(message)});
  }

  void check_port(const Json& value, const std::string& path) {
    if (value.is_number_integer() &&
        (value.get<std::int64_t>() < 1 || value.get<std::int64_t>() > 65535))
      refuse(path, "must be 1 to 65535, got " + value.dump());
    if (value.is_string() && !is_port_name(value.get<std::string>()))
      refuse(path, "must be a number or the name of a port, got " + describe(value));
  }

  void check_expression(const Json& expression, std::string_view list, const std::string& path) {
    if (!expression.is_object()) return;
    const std::string how = text_at(expression, "operator");
    const std::size_t count = list_at(expression, "values").size();
    if (list == "matchFields") {
      if (count != 1) refuse(path + ".values", "must be one value");
      return;
    }
    const bool on_nodes = path.find(".nodeAffinity.") != std::string::npos;
    std::vector<std::string_view> known = {"In", "NotIn", "Exists", "DoesNotExist"};
    if (on_nodes) known.insert(known.end(), {"Gt", "Lt"});
    if (std::ranges::find(known, how) == known.end())
      refuse(path + ".operator", fmt::format("must be one of {}; got {}", fmt::join(known, ", "),
                                             contract::quote(how)));
    else if ((how == "Gt" || how == "Lt") && count != 1)
      refuse(path + ".values", "must be one value with the operator " + how);
  }

  const Json& spec_;
  std::vector<Problem>& problems_;
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
  const Json spec = pod_template.value("spec", Json::object());
  if (pod_template.contains("metadata")) {
    const Json& metadata = pod_template.at("metadata");
    check_metadata(metadata, path + ".metadata", problems);
    refuse_own_labels(metadata, path + ".metadata.labels", problems);
    if (metadata.is_object() && metadata.contains("annotations"))
      PodCheck(spec, problems)
          .check_pod_annotations(metadata.at("annotations"), path + ".metadata.annotations");
  }
  PodCheck(spec, problems).walk(spec, "", "spec", path + ".spec");
  if (spec.is_object()) check_pod_containers(spec, path + ".spec", problems);
}

void check_volume(const Json& source, const std::string& path, std::vector<Problem>& problems) {
  PodCheck(Json::object(), problems).walk(source, "", "volume", path);
}

void check_metadata(const Json& metadata, const std::string& path, std::vector<Problem>& problems) {
  if (!metadata.is_object()) return;
  const Json no_spec;
  PodCheck check(no_spec, problems);
  if (metadata.contains("labels")) check.check_labels(metadata.at("labels"), path + ".labels");
  if (metadata.contains("annotations"))
    check.check_annotations(metadata.at("annotations"), path + ".annotations");
}

}  // namespace coxswain::job
