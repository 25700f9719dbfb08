#include "operator/job/amounts.h"

#include <algorithm>

#include "operator/job/json_fields.h"
#include "operator/job/quantity.h"

namespace coxswain::job {

namespace {

// Init containers run one by one, beside the sidecars among them that were started before
// (restartPolicy Always), which stay and are added to `sum`. What the greediest of them needs.
Amounts requests_of_init_containers(const Json& spec, Amounts& sum) {
  Amounts sidecars, most;
  for (const Json& container : list_at(spec, "initContainers")) {
    Amounts now = sidecars;
    add(requests_of(container), now);
    if (text_at(container, "restartPolicy") == "Always") sidecars = now;
    for (const auto& [name, amount] : now) most[name] = std::max(most[name], amount);
  }
  add(sidecars, sum);
  return most;
}

}  // namespace

void add(const Amounts& amounts, Amounts& sum) {
  for (const auto& [name, amount] : amounts) sum[name] += amount;
}

Amounts amounts_of(const Json& quantities) {
  Amounts amounts;
  if (!quantities.is_object()) return amounts;
  for (const auto& [name, quantity] : quantities.items())
    if (const auto amount = quantity_of(quantity)) amounts[name] = *amount;
  return amounts;
}

Amounts requests_of(const Json& container) {
  const Json& resources = member(container, "resources");
  Amounts amounts = amounts_of(member(resources, "requests"));
  amounts.merge(amounts_of(member(resources, "limits")));
  return amounts;
}

Amounts requests_of_containers(const Json& spec) {
  Amounts sum;
  for (const Json& container : list_at(spec, "containers")) add(requests_of(container), sum);
  for (const auto& [name, amount] : requests_of_init_containers(spec, sum))
    sum[name] = std::max(sum[name], amount);
  return sum;
}

}  // namespace coxswain::job
