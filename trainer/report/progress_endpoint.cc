#include "trainer/report/progress_endpoint.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "trainer/contract/rfc3339.h"
#include "trainer/report/prometheus_text.h"

namespace coxswain::report {

namespace {

// Of "/ranks" and "/ranks/256".
std::optional<int> first_of_page(std::string_view path) {
  constexpr std::string_view kRanks = "/ranks";
  if (!path.starts_with(kRanks)) return std::nullopt;
  path.remove_prefix(kRanks.size());
  if (path.empty()) return 0;
  int first = 0;
  const auto [end, error] = std::from_chars(path.data() + 1, path.data() + path.size(), first);
  const bool whole = path[0] == '/' && error == std::errc() && end == path.data() + path.size();
  return whole && first >= 0 ? std::optional(first) : std::nullopt;
}

// A checkpoint that was there before.
contract::CheckpointProgress describe(const std::filesystem::path& checkpoint, std::int64_t step,
                                      std::chrono::system_clock::time_point now) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(checkpoint, error);
  contract::CheckpointProgress found{
      .step = step,
      .time = to_rfc3339(error ? now
                               : std::chrono::time_point_cast<std::chrono::system_clock::duration>(
                                     std::chrono::file_clock::to_sys(written))),
      .path = checkpoint.filename().string(),
      .bytes = 0};
  std::filesystem::directory_iterator file(checkpoint, error);
  for (; !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    std::error_code no_file;
    const std::uintmax_t size = file->file_size(no_file);
    if (!no_file) found.bytes += static_cast<std::int64_t>(size);
  }
  return found;
}

}  // namespace

std::string to_metrics(const contract::ProgressDocument& document) {
  std::string text;
  if (const auto& progress = document.progress) {
    const auto count = [](std::int64_t value) { return static_cast<double>(value); };
    gauge(text, "training_epoch", "Epoch under way, from 1.", count(progress->epoch));
    gauge(text, "training_epochs", "Epochs in all.", count(progress->epochs));
    gauge(text, "training_step", "Steps done.", count(progress->step));
    gauge(text, "training_steps", "Steps in all.", count(progress->steps));
    gauge(text, "training_loss", "Loss of the last step.", progress->loss);
    gauge(text, "training_accuracy", "Share of images classified right: test images once known.",
          progress->accuracy);
    gauge(text, "training_top5_accuracy",
          "The same, among the first five classes; with metrics.topK.", progress->top5);
    gauge(text, "training_learning_rate", "Of the last step.", progress->lr);
    gauge(text, "training_epoch_seconds", "Of the last whole epoch's steps.",
          progress->epoch_seconds);
    gauge(text, "training_seconds", "In all, at the end of the last whole epoch.",
          progress->seconds);
    gauge(text, "training_samples_per_second", "Training images a second on all ranks.",
          progress->samples_per_second);
    gauge(text, "training_seconds_left", "Expected time to the end.", progress->seconds_left);
    gauge(text, "training_world_size", "Ranks.", progress->world_size);
    gauge(text, "training_scaling_efficiency",
          "Share of their time in which ranks wait for no sum and no peer: 1 is perfect.",
          progress->scaling_efficiency);
    gauge(text, "training_one_rank_efficiency",
          "Speed by that of as many ranks, each alone; with report.oneRankRate.",
          progress->one_rank_efficiency);
    gauge(text, "training_pushes_per_second", "Steps a second that ranks make on their own.",
          progress->pushes_per_second);
    gauge(text, "training_staleness",
          "Updates of others between a rank's weights and its own update: mean of the epoch.",
          progress->staleness);
  }
  if (const auto& checkpoint = document.checkpoint) {
    gauge(text, "checkpoint_step", "Step of the newest checkpoint.",
          static_cast<double>(checkpoint->step));
    gauge(text, "checkpoint_bytes", "Its size.", static_cast<double>(checkpoint->bytes));
  }
  return text;
}

ProgressEndpoint::ProgressEndpoint(ProgressEndpointOptions options)
    : options_(std::move(options)),
      endpoint_(options_.address, options_.port,
                [this](const std::string& path) { return answer(path); }) {}

contract::ProgressDocument ProgressEndpoint::latest() const {
  const std::lock_guard lock(mutex_);
  return document_;
}

void ProgressEndpoint::started(const train::RunInfo& info) {
  const std::lock_guard lock(mutex_);
  contract::Progress progress;
  progress.epoch = info.epoch;
  progress.epochs = info.epochs;
  progress.step = info.first_step;
  progress.steps = info.total_steps;
  progress.world_size = info.world_size;
  progress.time = to_rfc3339(options_.now());
  document_.progress = progress;
  ranks_.begin(info.world_size);
  evaluated_ = false;
  tells_top5_ = info.tells_top5;
  if (!info.resumed_from.empty())
    document_.checkpoint = describe(info.resumed_from, info.first_step, options_.now());
}

void ProgressEndpoint::stepped(const train::StepReport& report) {
  const std::lock_guard lock(mutex_);
  if (!document_.progress) document_.progress.emplace();
  contract::Progress& progress = *document_.progress;
  progress.epoch = report.epoch;
  progress.step = report.step;
  progress.loss = report.loss;
  if (!evaluated_) progress.accuracy = report.accuracy;
  if (!evaluated_) progress.top5 = report.top5;
  progress.lr = report.lr;
  progress.seconds_left = report.seconds_left;
  progress.pushes_per_second = report.pushes_per_second;
  progress.staleness = report.staleness;
  set_pace(report.samples_per_second, report.scaling_efficiency, report.one_rank_efficiency);
}

void ProgressEndpoint::told(const backend::RankFigures& figures) {
  const std::lock_guard lock(mutex_);
  ranks_.add(figures, options_.now());
}

void ProgressEndpoint::finished_epoch(const train::EpochReport& report) {
  const std::lock_guard lock(mutex_);
  if (!document_.progress) document_.progress.emplace();
  document_.progress->epoch = report.epoch;
  if (report.evaluated) {
    document_.progress->accuracy = document_.progress->test_accuracy = report.accuracy;
    document_.progress->test_loss = report.loss;
  }
  if (report.evaluated && tells_top5_) document_.progress->top5 = report.top5;
  document_.progress->epoch_seconds = report.seconds;
  document_.progress->seconds = report.seconds_in_all;
  evaluated_ = evaluated_ || report.evaluated;
  set_pace(report.samples_per_second, report.scaling_efficiency, report.one_rank_efficiency);
}

void ProgressEndpoint::saved(const train::CheckpointReport& report) {
  if (!report.error.empty()) return;
  const std::lock_guard lock(mutex_);
  document_.checkpoint = contract::CheckpointProgress{
      .step = report.step,
      .time = to_rfc3339(options_.now()),
      .path = std::filesystem::path(report.path).filename().string(),
      .bytes = report.bytes,
  };
}

void ProgressEndpoint::warned(const std::string&) {}

void ProgressEndpoint::finished(const train::Summary& summary) {
  const std::lock_guard lock(mutex_);
  if (!document_.progress) document_.progress.emplace();
  contract::Progress& progress = *document_.progress;
  progress.step = summary.steps;
  if (summary.accuracy) progress.accuracy = progress.test_accuracy = summary.accuracy;
  if (summary.loss) progress.loss = progress.test_loss = summary.loss;
  if (summary.top5) progress.top5 = summary.top5;
  progress.seconds_left = 0;
  progress.seconds = summary.seconds;
  set_pace(summary.samples_per_second, summary.scaling_efficiency, summary.one_rank_efficiency);
}

void ProgressEndpoint::set_pace(double samples_per_second, std::optional<double> scaling_efficiency,
                                std::optional<double> one_rank_efficiency) {
  contract::Progress& progress = *document_.progress;
  progress.samples_per_second = samples_per_second;
  if (scaling_efficiency) progress.scaling_efficiency = scaling_efficiency;
  if (one_rank_efficiency) progress.one_rank_efficiency = one_rank_efficiency;
  progress.time = to_rfc3339(options_.now());
}

std::optional<contract::HttpResponse> ProgressEndpoint::answer(const std::string& path) const {
  if (path == "/healthz") return contract::HttpResponse{.body = "ok\n"};
  if (path == "/progress") {
    return contract::HttpResponse{.content_type = "application/json",
                                  .body = contract::to_json(latest())};
  }
  if (path == "/metrics") {
    return contract::HttpResponse{.content_type = std::string(kPrometheusType),
                                  .body = to_metrics(latest())};
  }
  if (const auto first = first_of_page(path)) {
    const std::lock_guard lock(mutex_);
    return contract::HttpResponse{.content_type = "application/json",
                                  .body = contract::to_json(ranks_.page(*first, options_.now()))};
  }
  return std::nullopt;
}

}  // namespace coxswain::report
