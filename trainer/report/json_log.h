#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "trainer/report/text_sink.h"
#include "trainer/train/observer.h"

namespace coxswain::report {

struct JsonLogOptions {
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  std::chrono::milliseconds step_interval{1000};  // at most one "step" event each
  double step_share = 0;  // ... and one in this share of the time so far: fewer and fewer
  int restarts = 0;                               // for the last line
  bool last_line = true;                          // false: who started this run composes it
};

// --log-format json: one object a line, {"event": "started" | "step" | "epoch" | "checkpoint" |
// "warning" | "finished", ...}; the last line has the form of docs/contract.md, "The last line of a
// run".
class JsonLog : public train::Observer {
 public:
  JsonLog(TextSink& sink, JsonLogOptions options);

  void started(const train::RunInfo& info) override;
  void stepped(const train::StepReport& report) override;
  void finished_epoch(const train::EpochReport& report) override;
  void saved(const train::CheckpointReport& report) override;
  void warned(const std::string& message) override;
  void finished(const train::Summary& summary) override;

 private:
  TextSink& sink_;
  JsonLogOptions options_;
  std::optional<std::chrono::steady_clock::time_point> first_step_;
  std::optional<std::chrono::steady_clock::time_point> last_step_;
};

}  // namespace coxswain::report
