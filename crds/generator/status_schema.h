#pragma once

#include "crds/generator/schema.h"

namespace coxswain::crd {

// `status`, as operator/job/status.cc writes it.
Json status_schema();

}  // namespace coxswain::crd
