#pragma once

#include "crds/generator/schema.h"

namespace coxswain::crd {

// `spec`, with the rules of a single version of it. `kubernetes` holds the schemas PodTemplateSpec
// and VolumeSource.
Json spec_schema(const Json& kubernetes);

// The rule over a change of `spec`, which asks the status: it belongs to the root.
Rule change_rule();

}  // namespace coxswain::crd
