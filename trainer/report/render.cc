#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainer/report/progress_bar.h"

namespace coxswain::report {

namespace {

constexpr int kMaxBarWidth = 30;
constexpr int kMinBarWidth = 8;
constexpr int kRoomyWidth = 100;  // from here on words and spaces are not saved
constexpr double kNoticeableWait =
    0.1;  // share of an epoch spent waiting for data that is worth a word

// "1,234,567"
std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t sign = value < 0 ? 1 : 0;
  for (std::size_t i = digits.size(); i > sign + 3;) digits.insert(i -= 3, ",");
  return digits;
}

std::string rate(double samples_per_second) {
  if (!std::isfinite(samples_per_second)) return "?";
  // Slow models need the decimal.
  return samples_per_second < 100 ? fmt::format("{:.1f}", samples_per_second)
                                  : grouped(std::llround(std::min(samples_per_second, 1e15)));
}

std::string percent(double share) { return fmt::format("{:.2f} %", share * 100); }

// "0:05", "12:30", "1:02:03"
std::string duration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9) + 0.5);
  const std::int64_t hours = whole / 3600;
  const std::int64_t minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string top5(std::optional<double> share) { return share ? ", top-5 " + percent(*share) : ""; }

std::string counted(std::int64_t count, const std::string& word) {
  return fmt::format("{} {}{}", grouped(count), word, count == 1 ? "" : "s");
}

std::string epoch_of(std::int64_t epoch, const train::RunInfo& info) {
  return info.epochs > 0 ? fmt::format("epoch {}/{}", epoch, info.epochs)
                         : fmt::format("epoch {}", epoch);
}

std::string step_of(std::int64_t step, const train::RunInfo& info) {
  return info.total_steps > 0 ? fmt::format("step {}/{}", grouped(step), grouped(info.total_steps))
                              : fmt::format("step {}", grouped(step));
}

// "[=====>    ] "
std::string bar(double share, int width) {
  const int inner = width - 3;
  const int filled =
      std::clamp(static_cast<int>(std::clamp(share, 0.0, 1.0) * inner + 0.5), 0, inner);
  std::string text(static_cast<std::size_t>(filled), '=');
  if (filled > 0 && filled < inner) text.back() = '>';
  return fmt::format("[{:<{}}] ", text, inner);
}

}  // namespace

std::string render_banner(const train::RunInfo& info) {
  std::string text = fmt::format("{}: {}, {:.2f} million multiply-accumulates an image\n",
                                 info.model, counted(info.parameters, "parameter"),
                                 static_cast<double>(info.multiply_accumulates) / 1e6);
  text += fmt::format("{} x {}, {} training images, {} test images\n",
                      counted(info.world_size, "rank"), counted(info.threads, "thread"),
                      grouped(info.training_samples), grouped(info.test_samples));
  const std::string length =
      info.epochs > 0
          ? fmt::format("{} of {}", counted(info.epochs, "epoch"),
                        counted(info.steps_per_epoch, "step"))
          : fmt::format("{}, of which an epoch has {}", counted(info.total_steps, "step"),
                        grouped(info.steps_per_epoch));
  text += fmt::format("batch {} {}, learning rate {:.6g}, {}\n", grouped(info.global_batch),
                      info.ranks_train_apart ? "of one rank" : "over all ranks", info.lr, length);
  for (const std::string& note : info.notes) text += note + "\n";
  return text;
}

std::string render_bar(const train::StepReport& report, const train::RunInfo& info, int width) {
  const bool roomy = width >= kRoomyWidth;
  std::string head = epoch_of(report.epoch, info) + ' ';
  std::string tail = info.total_steps > 0
                         ? fmt::format("{}/{}", grouped(report.step), grouped(info.total_steps))
                         : step_of(report.step, info);
  for (const std::string& part :
       {fmt::format("loss {:.4f}", report.loss),
        (roomy ? "accuracy " : "") + percent(report.accuracy), fmt::format("lr {:.3g}", report.lr),
        rate(report.samples_per_second) + " images/s", duration(report.seconds_left) + " left"}) {
    tail += (roomy ? "  " : " ") + part;
  }
  // The last column stays free: some terminals wrap when it is written.
  const int room = width - 1 - static_cast<int>(head.size() + tail.size());
  if (room >= kMinBarWidth && info.total_steps > 0) {
    const double share = static_cast<double>(report.step) / static_cast<double>(info.total_steps);
    head += bar(share, std::min(room, kMaxBarWidth));
  }
  return (head + tail).substr(0, static_cast<std::size_t>(std::max(width - 1, 0)));
}

std::string render_step_line(const train::StepReport& report, const train::RunInfo& info) {
  std::string text =
      fmt::format("{}, {}: loss {:.4f}, accuracy {}{}, lr {:.4g}, {} images/s, {} left",
                  epoch_of(report.epoch, info), step_of(report.step, info), report.loss,
                  percent(report.accuracy), top5(report.top5), report.lr,
                  rate(report.samples_per_second), duration(report.seconds_left));
  if (report.pushes_per_second)
    text += fmt::format(", {} pushes/s", rate(*report.pushes_per_second));
  if (report.staleness) text += fmt::format(", staleness {:.1f}", *report.staleness);
  return text;
}

std::string render_epoch_line(const train::EpochReport& report, const train::RunInfo& info) {
  std::string text = fmt::format("{}: training loss {:.4f}, accuracy {}{}",
                                 epoch_of(report.epoch, info), report.training_loss,
                                 percent(report.training_accuracy), top5(report.training_top5));
  if (report.evaluated) {
    text += fmt::format("; test loss {:.4f}, accuracy {}", report.loss, percent(report.accuracy));
    if (info.tells_top5) text += top5(report.top5);
  }
  if (report.lr) text += fmt::format("; lr {:.4g}", *report.lr);
  text += fmt::format("; {} images/s, {:.1f} s", rate(report.samples_per_second), report.seconds);
  if (report.input_bound >= kNoticeableWait) {
    text += fmt::format("; {:.0f} % of it waiting for data (raise data.workers)",
                        report.input_bound * 100);
  }
  if (report.staleness) {
    text += fmt::format("; staleness {:.1f}, at most {}", *report.staleness, report.most_staleness);
  }
  return text;
}

std::string render_summary(const train::Summary& summary, const train::RunInfo& info) {
  std::string text = summary.result;
  if (summary.accuracy) text += fmt::format(": test accuracy {}", percent(*summary.accuracy));
  if (summary.accuracy) text += top5(summary.top5);
  if (summary.loss)
    text += fmt::format("{} loss {:.4f}", summary.accuracy ? "," : ":", *summary.loss);
  text += fmt::format("\n{}, {}, {} images/s on {}", counted(summary.epochs, "epoch"),
                      counted(summary.steps, "step"), rate(summary.samples_per_second),
                      counted(info.world_size, "rank"));
  if (summary.scaling_efficiency && info.world_size > 1) {
    text += fmt::format(", scaling efficiency {:.0f} %", *summary.scaling_efficiency * 100);
  }
  if (summary.one_rank_efficiency && info.one_rank_rate) {
    text +=
        fmt::format(", one-rank efficiency {:.0f} % (of {} x {})",
                    *summary.one_rank_efficiency * 100, info.world_size, rate(*info.one_rank_rate));
  }
  text += fmt::format(", {} in all\n", duration(summary.seconds));
  if (!summary.checkpoint.empty()) text += fmt::format("checkpoint: {}\n", summary.checkpoint);
  return text;
}

}  // namespace coxswain::report
