#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "trainer/report/text_sink.h"
#include "trainer/train/observer.h"

namespace coxswain::report {

// Pure renderings, without colours. Lines end without '\n' except in banner and summary, which have
// several.
std::string render_banner(const train::RunInfo& info);
std::string render_bar(const train::StepReport& report, const train::RunInfo& info, int width);
std::string render_step_line(const train::StepReport& report, const train::RunInfo& info);
std::string render_epoch_line(const train::EpochReport& report, const train::RunInfo& info);
std::string render_summary(const train::Summary& summary, const train::RunInfo& info);

struct ProgressBarOptions {
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  std::chrono::milliseconds redraw_interval{100};
  std::chrono::milliseconds line_interval{5000};  // not on a terminal
};

// What a person sees: on a terminal one redrawn line, else a line every few seconds and one an
// epoch.
class ProgressBar : public train::Observer {
 public:
  ProgressBar(TextSink& sink, ProgressBarOptions options);

  void started(const train::RunInfo& info) override;
  void stepped(const train::StepReport& report) override;
  void finished_epoch(const train::EpochReport& report) override;
  void saved(const train::CheckpointReport& report) override;
  void warned(const std::string& message) override;
  void finished(const train::Summary& summary) override;

 private:
  void print_line(const std::string& line);

  TextSink& sink_;
  ProgressBarOptions options_;
  train::RunInfo info_;
  std::optional<std::chrono::steady_clock::time_point> last_drawn_;
  bool bar_shown_ = false;
};

}  // namespace coxswain::report
