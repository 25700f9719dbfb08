#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace coxswain::contract {

// Value. The last line of a run with --log-format json (docs/contract.md, "The last line of a
// run"), of either program.
struct FinishedEvent {
  std::string result;  // "Succeeded", "Saved", "Failed"
  std::optional<double> accuracy;
  std::optional<double> loss;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::optional<double> samples_per_second;
  int restarts = 0;
  std::string checkpoint;                        // empty: none
  std::optional<double> seconds = std::nullopt;  // in all, of the last attempt
  bool operator==(const FinishedEvent&) const = default;
};

// {"event":"finished","result":"Succeeded",...} without the end of line; what is not known is null.
std::string to_json(const FinishedEvent& event);

}  // namespace coxswain::contract
