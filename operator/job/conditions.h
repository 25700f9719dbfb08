#pragma once

#include <string>
#include <string_view>

#include "operator/job/training_job.h"

namespace coxswain::job {

namespace condition {
inline constexpr std::string_view kInvalid = "Invalid";
inline constexpr std::string_view kResourcesRejected = "ResourcesRejected";
inline constexpr std::string_view kSuspended = "Suspended";
inline constexpr std::string_view kQueued = "Queued";    // pods made, not all scheduled
inline constexpr std::string_view kReady = "Ready";      // all pods Ready
inline constexpr std::string_view kRunning = "Running";  // Ready was reached in this attempt
inline constexpr std::string_view kRestarting = "Restarting";
inline constexpr std::string_view kDegraded = "Degraded";
inline constexpr std::string_view kSucceeded = "Succeeded";
inline constexpr std::string_view kFailed = "Failed";
}  // namespace condition

// Nullptr where it was never set.
const Condition* find_condition(const Status& status, std::string_view type);

bool is_true(const Status& status, std::string_view type);

// True if it was set and is False now: what it names is over.
bool is_false(const Status& status, std::string_view type);

// What a condition says now. Its transition time moves only when the truth does.
struct Finding {
  bool status = false;
  std::string reason;
  std::string message;
};
struct Stamp {
  Time time;
  int generation = 0;
};
void set_condition(Status& status, std::string_view type, const Finding& finding,
                   const Stamp& stamp);

// Makes a True condition False; one that never was set stays unsaid.
void clear_condition(Status& status, std::string_view type, const std::string& reason,
                     const Stamp& stamp);

// Within one pass a condition may go and come back: that is no transition from what is stored.
void keep_transition_times(const Status& stored, Status& status);

}  // namespace coxswain::job
