#pragma once

#include "operator/job/training_job.h"
#include "trainer/contract/worker/json_fields.h"

// PURE: reading and completing JSON of which nothing is sure.
namespace coxswain::cluster {

using job::Json;

using contract::find;
using contract::list_at;
using contract::member;
using contract::text_at;

// The member as an object or a list, made empty where it is something else.
Json& object_in(Json& owner, const char* key);
Json& list_in(Json& owner, const char* key);

// Sets the member unless it is there. `owner` must be an object.
void fill(Json& owner, const char* key, Json value);

}  // namespace coxswain::cluster
