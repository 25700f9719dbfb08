#include "operator/job/conditions.h"

#include <algorithm>
#include <cctype>

namespace coxswain::job {

namespace {

// The API server takes a CamelCase word; what a pod or a program said may be anything.
std::string as_reason(const std::string& text) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  const bool word = !text.empty() && text.size() <= 100 &&
                    std::isalpha(static_cast<unsigned char>(text.front())) &&
                    std::all_of(text.begin(), text.end(), fits);
  return word ? text : "Other";
}

}  // namespace

const Condition* find_condition(const Status& status, std::string_view type) {
  const auto found = std::find_if(status.conditions.begin(), status.conditions.end(),
                                  [&](const Condition& c) { return c.type == type; });
  return found == status.conditions.end() ? nullptr : &*found;
}

bool is_true(const Status& status, std::string_view type) {
  const Condition* found = find_condition(status, type);
  return found && found->status;
}

bool is_false(const Status& status, std::string_view type) {
  const Condition* found = find_condition(status, type);
  return found && !found->status;
}

void set_condition(Status& status, std::string_view type, const Finding& finding,
                   const Stamp& stamp) {
  auto& conditions = status.conditions;
  auto found = std::find_if(conditions.begin(), conditions.end(),
                            [&](const Condition& c) { return c.type == type; });
  if (found == conditions.end()) {
    Condition fresh;
    fresh.type = std::string(type);
    fresh.status = !finding.status;
    found = conditions.insert(found, std::move(fresh));
  }
  if (found->status != finding.status) found->last_transition_time = stamp.time;
  found->status = finding.status;
  found->reason = as_reason(finding.reason);
  found->message = finding.message;
  found->observed_generation = stamp.generation;
}

void clear_condition(Status& status, std::string_view type, const std::string& reason,
                     const Stamp& stamp) {
  if (is_true(status, type)) set_condition(status, type, {false, reason, ""}, stamp);
}

void keep_transition_times(const Status& stored, Status& status) {
  for (Condition& condition : status.conditions) {
    const Condition* old = find_condition(stored, condition.type);
    if (old && old->status == condition.status)
      condition.last_transition_time = old->last_transition_time;
  }
}

}  // namespace coxswain::job
