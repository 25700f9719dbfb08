#pragma once

#include <string>
#include <vector>

#include "trainer/contract/config/trainer_config.h"

namespace coxswain {

// What Apex prints of a level before the first step ("initialize" of apex.amp), for those
// who look for it; nothing without a level.
std::vector<std::string> describe_amp_level(const contract::TrainerConfig& config);

}  // namespace coxswain
