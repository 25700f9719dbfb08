#pragma once

#include <string_view>

#include "crds/generator/schema.h"

namespace coxswain::crd {

// The CustomResourceDefinition of TrainingJob. `kubernetes` holds the schemas PodTemplateSpec and
// VolumeSource, as fetch_schemas.py writes them.
Json training_job_crd(const Json& kubernetes);

// The schema of a TrainingJob that the CRD carries; `metadata` as the API server takes it in a
// file.
Json training_job_schema(const Json& kubernetes);

// crds/trainingjobs.yaml, from the text of kubernetes.json. Throws where that is no JSON of the
// expected form.
std::string crd_text(std::string_view kubernetes);

}  // namespace coxswain::crd
