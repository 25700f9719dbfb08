#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "trainer/contract/config/field.h"

namespace coxswain::contract {

// Told which key breaks a rule that looks at several.
using ReportRule = std::function<void(std::string_view key, const std::string& what)>;

// False for a key that means nothing beside the others, as momentum for adam.
bool applies(const Field& field, const TrainerConfig& config);

// Value. Steps from 1, both ends included.
struct StepRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
std::optional<StepRange> parse_step_range(std::string_view text);  // "100-120"

// What of this configuration parameter servers can't do: "ema.decay". Empty: nothing.
std::string lacks_with_servers(const TrainerConfig& config);

// The rules across keys. `given` are the keys that the user set: only those can mean nothing.
void check_rules(const TrainerConfig& config, const std::set<std::string, std::less<>>& given,
                 const ReportRule& report);

// Defaults that depend on other keys: the rate and momentum of the optimizer, epochs.
void fill_defaults(TrainerConfig& config, const std::set<std::string, std::less<>>& given);

}  // namespace coxswain::contract
