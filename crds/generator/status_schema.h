#pragma once

#include "crds/generator/schema.h"

namespace coxswain::crd {

// `status`, as operator/job/status_json.cc writes it.
Json status_schema();

}  // namespace coxswain::crd
