#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "trainer/contract/worker/progress.h"

// Progress as a part of other documents: the status, the termination message.
namespace coxswain::contract {

nlohmann::ordered_json to_json_object(const Progress& progress);
nlohmann::ordered_json to_json_object(const CheckpointProgress& checkpoint);

// Nothing when a member has a wrong type.
std::optional<Progress> progress_from(const nlohmann::json& json);
std::optional<CheckpointProgress> checkpoint_from(const nlohmann::json& json);

}  // namespace coxswain::contract
