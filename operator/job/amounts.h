#pragma once

#include <map>
#include <string>

#include "operator/job/field.h"

namespace coxswain::job {

// By resource: {"cpu", 1.5}.
using Amounts = std::map<std::string, double>;

void add(const Amounts& amounts, Amounts& sum);

// The quantities of an object; what is none is left out.
Amounts amounts_of(const Json& quantities);

// Of one container, or of a whole pod: its requests, and its limits where it makes none.
Amounts requests_of(const Json& container);

// Of all containers of a PodSpec, as they run together (component-helpers/resource/helpers.go).
Amounts requests_of_containers(const Json& spec);

}  // namespace coxswain::job
