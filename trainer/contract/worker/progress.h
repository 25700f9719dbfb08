#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace coxswain::contract {

// Value. status.progress of a job (docs/contract.md, "Status"): best effort, never an input to a
// decision.
struct Progress {
  std::int64_t epoch = 0;
  std::int64_t epochs = 0;  // 0: bounded by steps alone
  std::int64_t step = 0;
  std::int64_t steps = 0;
  std::optional<double> loss;
  std::optional<double> accuracy;  // of the last evaluation; before it, of the training samples
  double samples_per_second = 0;
  std::optional<double> seconds_left;
  int world_size = 1;
  // Share of their time in which ranks wait for no sum and no peer: 1 is perfect.
  std::optional<double> scaling_efficiency;
  std::string time;  // RFC 3339, UTC: "2024-05-01T12:00:00Z"
  // Where ranks compute steps of their own: of all of them; the mean of the epoch so far.
  std::optional<double> pushes_per_second = std::nullopt;
  std::optional<double> staleness = std::nullopt;
  std::optional<double> lr = std::nullopt;
  std::optional<double> top5 = std::nullopt;  // as accuracy; where metrics.topK asks for it
  std::optional<double> one_rank_efficiency = std::nullopt;
  std::optional<double> epoch_seconds = std::nullopt;  // of the last epoch's steps
  std::optional<double> seconds = std::nullopt;        // in all, at the last epoch's end
  // Of the last evaluation alone, for the last line of a run.
  std::optional<double> test_accuracy = std::nullopt;
  std::optional<double> test_loss = std::nullopt;
  bool operator==(const Progress&) const = default;
};

// Value. status.checkpoint of a job: the newest complete one.
struct CheckpointProgress {
  std::int64_t step = 0;
  std::string time;  // RFC 3339, UTC
  std::string path;  // "step-00001200.g7"
  std::int64_t bytes = 0;
  bool operator==(const CheckpointProgress&) const = default;
};

// Value. The body of GET /progress: {"progress": {...}, "checkpoint": {...}}.
struct ProgressDocument {
  std::optional<Progress> progress;
  std::optional<CheckpointProgress> checkpoint;
  bool operator==(const ProgressDocument&) const = default;
};

inline constexpr std::size_t kMaxProgressBytes = 4096;

// At most kMaxProgressBytes; numbers that are not finite are left out.
std::string to_json(const ProgressDocument& document);

// Nothing for text over the limit, that is not JSON, or whose fields have a wrong type. Never
// throws.
std::optional<ProgressDocument> parse_progress(std::string_view json);

}  // namespace coxswain::contract
