#pragma once

#include <string>

#include "tests/support/scripted_kubelet/life.h"

// PURE: what a kubelet and a scheduler write about a pod, as merge patches of its status.
namespace coxswain::scripted {

// Each carries the pod's uid, so that a pod of the same name that came later is not meant. `now` is
// RFC 3339; an act that writes no status gives null.
Json status_patch(const Json& pod, const Life& life, Act act, const std::string& now);

Json binding(const std::string& name_space, const std::string& name, const std::string& uid,
             const std::string& node);

// A node that schedulers leave alone, and the lease that says that it lives.
Json node(const std::string& name, const std::string& now);
Json node_lease(const std::string& name, const std::string& now);

}  // namespace coxswain::scripted
