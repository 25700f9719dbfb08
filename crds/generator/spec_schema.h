#pragma once

#include "crds/generator/schema.h"

namespace coxswain::crd {

// `spec`, with the rules of a single version of it. `kubernetes` holds the schemas PodTemplateSpec
// and VolumeSource.
Json spec_schema(const Json& kubernetes);

// Rules over a change of `spec`, which ask the status: they belong to the root.
Rule change_rule();
Rule suspend_rule();

}  // namespace coxswain::crd
