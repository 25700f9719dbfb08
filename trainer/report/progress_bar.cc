#include "trainer/report/progress_bar.h"

#include <fmt/format.h>

namespace coxswain::report {

namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

}  // namespace

ProgressBar::ProgressBar(TextSink& sink, ProgressBarOptions options)
    : sink_(sink), options_(std::move(options)) {}

void ProgressBar::started(const train::RunInfo& info) {
  info_ = info;
  last_drawn_ = options_.now();
  sink_.write(render_banner(info));
}

void ProgressBar::stepped(const train::StepReport& report) {
  const auto now = options_.now();
  const auto interval = sink_.is_terminal() ? options_.redraw_interval : options_.line_interval;
  if (last_drawn_ && now - *last_drawn_ < interval) return;
  last_drawn_ = now;
  if (sink_.is_terminal()) {
    sink_.write(std::string(kEraseLine) + render_bar(report, info_, sink_.width()));
    bar_shown_ = true;
  } else {
    sink_.write(render_step_line(report, info_) + '\n');
  }
}

void ProgressBar::finished_epoch(const train::EpochReport& report) {
  print_line(render_epoch_line(report, info_));
}

void ProgressBar::saved(const train::CheckpointReport& report) {
  if (report.error.empty()) return;  // as expected: not a word
  print_line(fmt::format("warning: step {} could not be saved: {}", report.step, report.error));
}

void ProgressBar::warned(const std::string& message) { print_line("warning: " + message); }

void ProgressBar::finished(const train::Summary& summary) {
  const std::string erase(bar_shown_ ? kEraseLine : "");
  sink_.write(erase + render_summary(summary, info_), kLastWordsPatience);
  bar_shown_ = false;
}

// Takes the place of the bar, which comes back below it with the next step.
void ProgressBar::print_line(const std::string& line) {
  sink_.write(std::string(bar_shown_ ? kEraseLine : "") + line + '\n');
  bar_shown_ = false;
  last_drawn_ = options_.now();
}

}  // namespace coxswain::report
