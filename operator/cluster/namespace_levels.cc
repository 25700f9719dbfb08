#include "operator/cluster/namespace_levels.h"

#include <fmt/format.h>

#include "operator/cluster/pod_json.h"
#include "operator/job/words.h"

namespace coxswain::cluster {

namespace {

const kube::Resource kNamespaces{"", "v1", "namespaces", "Namespace"};
constexpr const char* kEnforce = "pod-security.kubernetes.io/enforce";

}  // namespace

std::optional<job::PodSecurity> level_of(const kube::Json& name_space) {
  const Json* place = &name_space;
  for (const char* key : {"metadata", "labels", kEnforce})
    if (place) place = cluster::find(*place, key);
  if (!place || !place->is_string()) return std::nullopt;
  return value_of<job::PodSecurity>(place->get<std::string>())
      .value_or(job::PodSecurity::kRestricted);
}

kube::Result<NamespaceLevels::Answer> NamespaceLevels::find(const std::string& name, Time now) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [&](const auto& entry) { return now >= entry.second.read + kKeep; });
    if (const auto found = known_.find(name); found != known_.end()) return found->second.answer;
  }
  const auto object = client_.get(kNamespaces, "", name);
  Answer answer;
  if (object) {
    answer.level = level_of(*object);
  } else if (object.error().code == 403 || object.error().code == 404) {
    answer.doubt = fmt::format("namespace {} can't be read: {}", name, to_text(object.error()));
    unread_(answer.doubt);
  } else {
    return object.error();
  }
  const std::lock_guard lock(mutex_);
  known_[name] = {now, answer};
  return answer;
}

}  // namespace coxswain::cluster
