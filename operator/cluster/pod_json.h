#pragma once

#include <optional>
#include <string>

#include "operator/job/json_fields.h"

// PURE: reading and completing JSON of which nothing is sure.
namespace coxswain::cluster {

using job::Json;

// The member, where `object` is one and has it, and it is not null.
const Json* find(const Json& object, const char* key);

// What is missing or of another type reads as empty.
using job::text_at;
const Json& list_at(const Json& object, const char* key);

// The member as an object or a list, made empty where it is something else.
Json& object_in(Json& owner, const char* key);
Json& list_in(Json& owner, const char* key);

// Sets the member unless it is there. `owner` must be an object.
void fill(Json& owner, const char* key, Json value);

}  // namespace coxswain::cluster
