#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "operator/inspect/sighting.h"

// PURE: what a local run leaves in its directory for those who look at it.
namespace coxswain::inspect {

inline constexpr const char* kStoryFile = "story.json";
inline constexpr std::size_t kMostEvents = 200;  // the newest are kept

// Value. The job with its recorded status, its events, and the process that runs it.
struct Story {
  job::TrainingJob job;
  std::vector<PastEvent> events;
  int process = 0;
};

std::string to_json(const Story& story);
std::optional<Story> parse_story(std::string_view text);  // nothing for what is none

}  // namespace coxswain::inspect
