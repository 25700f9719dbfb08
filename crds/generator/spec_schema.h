#pragma once

#include "crds/generator/schema.h"

namespace coxswain::crd {

// `spec`, with the rules of a single version of it. `kubernetes` holds the schemas PodTemplateSpec
// and VolumeSource. An enumeration holds what this version does, so that the API server itself
// refuses the words of later ones, which a description may name.
Json spec_schema(const Json& kubernetes);

// Rules over a change of `spec`, which ask the status: they belong to the root.
Rule change_rule();
Rule suspend_rule();

}  // namespace coxswain::crd
