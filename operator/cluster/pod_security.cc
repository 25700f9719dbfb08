#include "operator/cluster/pod_security.h"

#include "operator/cluster/pod_json.h"
#include "trainer/contract/worker/constants.h"

// https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted. Where the chart
// accepts other templates, what they say stands.
namespace coxswain::cluster {

namespace {

bool asks_for_root(const Json& context) {
  const Json* user = find(context, "runAsUser");
  return user && *user == 0;
}

void restrict_container(Json& container) {
  if (!container.is_object()) return;
  Json& context = object_in(container, "securityContext");
  if (asks_for_root(context)) fill(context, "runAsNonRoot", false);
  const Json* privileged = find(context, "privileged");
  if (privileged && *privileged == true) return;  // what follows would contradict it
  fill(context, "allowPrivilegeEscalation", false);
  fill(object_in(context, "capabilities"), "drop", Json::array({"ALL"}));
}

}  // namespace

void restrict_pod(Json& pod_spec, bool as_our_user) {
  fill(pod_spec, "automountServiceAccountToken", false);
  Json& context = object_in(pod_spec, "securityContext");
  fill(context, "runAsNonRoot", !asks_for_root(context));
  if (as_our_user)
    for (const char* id : {"runAsUser", "runAsGroup", "fsGroup"})
      fill(context, id, contract::kUserId);
  // Volumes that are right already are not gone through file by file.
  fill(context, "fsGroupChangePolicy", "OnRootMismatch");
  fill(context, "seccompProfile", {{"type", "RuntimeDefault"}});
  for (const char* list : {"containers", "initContainers"}) {
    if (!find(pod_spec, list)) continue;
    for (Json& container : list_in(pod_spec, list)) restrict_container(container);
  }
}

}  // namespace coxswain::cluster
