#include "crds/generator/status_schema.h"

#include "crds/generator/field_schema.h"
#include "operator/job/status.h"

namespace coxswain::crd {

Json status_schema() {
  Json schema = object_schema("What was decided and seen. Only the operator writes it.",
                              job::kStatusFields, {.writer = Writer::kOperator});
  Json& conditions = schema["properties"]["conditions"];
  conditions["x-kubernetes-list-type"] = "map";
  conditions["x-kubernetes-list-map-keys"] = {"type"};
  return schema;
}

}  // namespace coxswain::crd
