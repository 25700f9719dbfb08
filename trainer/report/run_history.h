#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// history.jsonl, which rank 0 keeps beside the checkpoints: the lines of --log-format json, and one
// before and one after each attempt. PURE.
namespace coxswain::report {

inline constexpr std::string_view kHistoryFile = "history.jsonl";

// Value. One start of the run.
struct Attempt {
  std::int64_t number = 0;
  std::string time;  // RFC 3339
  std::string configuration;
  std::string model;
  std::int64_t parameters = 0;
  int world_size = 0;
  int threads = 0;
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::string fingerprint;
  std::vector<std::string> notes;
  std::vector<std::string> warnings;
  std::string end;    // its result, or why it left; empty: it fell silent
  std::string cause;  // why it ended, as whoever watches all ranks told the next; empty: untold
};

bool ended_well(const Attempt& attempt);

struct StepPoint {
  std::int64_t step = 0;
  std::optional<double> loss;
  std::optional<double> accuracy;
  std::optional<double> lr;
  std::optional<double> samples_per_second;
};

struct EpochPoint {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::optional<double> training_loss;
  std::optional<double> training_accuracy;
  std::optional<double> loss;
  std::optional<double> accuracy;
  std::optional<double> top5;
  std::optional<double> lr;
  std::optional<double> seconds;
  std::optional<double> samples_per_second;
};

// Value. What counts of a run: what an attempt did beyond the step where the next one began is not
// in the curves.
struct RunHistory {
  std::vector<Attempt> attempts;
  std::vector<StepPoint> steps;
  std::vector<EpochPoint> epochs;
  int unreadable_lines = 0;
};

// The line before an attempt's, and the one of an attempt that leaves with an error. `cause`: why
// the one before ended; empty: nothing is known of one.
std::string attempt_line(std::int64_t number, const std::string& time,
                         const std::string& configuration, const std::string& cause);
std::string left_line(int code, const std::string& reason, const std::string& message);

// Whatever the text: a line that is none of these is counted.
RunHistory parse_history(std::string_view text);

}  // namespace coxswain::report
