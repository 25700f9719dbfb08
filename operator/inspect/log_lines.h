#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "operator/inspect/sighting.h"

// PURE: what ranks print, line by line.
namespace coxswain::inspect {

// Cuts pieces into lines. Of a line that was drawn over, as a progress bar is, the last drawing
// stays. What is longer than 64 KiB becomes several lines.
class LineCutter {
 public:
  using OnLine = std::function<void(std::string_view line)>;  // without its end

  void add(std::string_view piece, const OnLine& on_line);
  void end(const OnLine& on_line);  // what has no end of line is a line as well

 private:
  std::string rest_;
};

// "worker-3 | "; of a later attempt, "worker-3 (attempt 2) | ".
std::string log_prefix(const std::string& who, int attempt);

// A line of a pod's log with its time before it ("2026-01-31T12:00:01.123456789Z text").
struct StampedLine {
  std::string_view stamp;  // empty: it has none
  std::string_view text;
};
StampedLine split_stamp(std::string_view line);

// Which pods' logs are asked for.
struct LogChoice {
  std::optional<int> rank;
  bool previous = false;  // of the attempt before the newest
};

// Their workers, in order: of the newest attempt that is there, or of the one before the recorded
// one. None: `problem` says why, and whether they may come yet.
struct Chosen {
  std::vector<job::Worker> workers;
  std::string problem;
  bool may_come = false;
};
Chosen choose_workers(const Sighting& seen, const LogChoice& choice);

bool has_log(const job::Worker& worker);  // its container has begun

}  // namespace coxswain::inspect
