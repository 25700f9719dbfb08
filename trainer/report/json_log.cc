#include "trainer/report/json_log.h"

#include <cmath>

#include "trainer/contract/worker/finished_event.h"
#include "trainer/contract/worker/json_fields.h"

namespace coxswain::report {

namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN and no infinity.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json make_event(const char* name) {
  Json object;
  object["event"] = name;
  return object;
}

std::string line(const Json& object) { return contract::dump(object) + '\n'; }

}  // namespace

JsonLog::JsonLog(TextSink& sink, JsonLogOptions options)
    : sink_(sink), options_(std::move(options)) {}

void JsonLog::started(const train::RunInfo& info) {
  Json event = make_event("started");
  event["model"] = info.model;
  event["parameters"] = info.parameters;
  event["worldSize"] = info.world_size;
  event["threads"] = info.threads;
  event["trainingSamples"] = info.training_samples;
  event["testSamples"] = info.test_samples;
  event["epochs"] = info.epochs;
  event["steps"] = info.total_steps;
  event["firstStep"] = info.first_step;
  event["globalBatch"] = info.global_batch;
  event["lr"] = number(info.lr);
  event["fingerprint"] = info.fingerprint;
  if (info.one_rank_rate) event["oneRankRate"] = number(*info.one_rank_rate);
  event["notes"] = info.notes;
  sink_.write(line(event));
}

void JsonLog::stepped(const train::StepReport& report) {
  const auto now = options_.now();
  if (!first_step_) first_step_ = now;
  const auto pause = std::max<std::chrono::duration<double>>(
      options_.step_interval, (now - *first_step_) * options_.step_share);
  if (last_step_ && now - *last_step_ < pause) return;
  last_step_ = now;
  Json event = make_event("step");
  event["epoch"] = report.epoch;
  event["step"] = report.step;
  event["loss"] = number(report.loss);
  event["accuracy"] = number(report.accuracy);
  if (report.top5) event["top5"] = number(*report.top5);
  event["samplesPerSecond"] = number(report.samples_per_second);
  event["secondsLeft"] = number(report.seconds_left);
  event["lr"] = number(report.lr);
  if (report.staleness) event["staleness"] = number(*report.staleness);
  if (report.pushes_per_second) event["pushesPerSecond"] = number(*report.pushes_per_second);
  sink_.write(line(event));
}

void JsonLog::finished_epoch(const train::EpochReport& report) {
  Json event = make_event("epoch");
  event["epoch"] = report.epoch;
  event["step"] = report.step;
  event["trainingLoss"] = number(report.training_loss);
  event["trainingAccuracy"] = number(report.training_accuracy);
  if (report.training_top5) event["trainingTop5"] = number(*report.training_top5);
  if (report.evaluated) {
    event["loss"] = number(report.loss);
    event["accuracy"] = number(report.accuracy);
    event["top5"] = number(report.top5);
  }
  if (report.lr) event["lr"] = number(*report.lr);
  event["seconds"] = number(report.seconds);
  event["secondsInAll"] = number(report.seconds_in_all);
  event["samplesPerSecond"] = number(report.samples_per_second);
  event["inputBound"] = number(report.input_bound);
  if (report.scaling_efficiency) event["scalingEfficiency"] = number(*report.scaling_efficiency);
  if (report.one_rank_efficiency) event["oneRankEfficiency"] = number(*report.one_rank_efficiency);
  if (report.staleness) {
    event["staleness"] = number(*report.staleness);
    event["mostStaleness"] = report.most_staleness;
  }
  sink_.write(line(event));
}

void JsonLog::saved(const train::CheckpointReport& report) {
  Json event = make_event("checkpoint");
  event["step"] = report.step;
  if (!report.error.empty()) {
    event["error"] = report.error;
  } else {
    event["path"] = report.path;
    event["bytes"] = report.bytes;
    event["seconds"] = number(report.seconds);
  }
  sink_.write(line(event));
}

void JsonLog::warned(const std::string& message) {
  Json event = make_event("warning");
  event["message"] = message;
  sink_.write(line(event));
}

void JsonLog::finished(const train::Summary& summary) {
  if (!options_.last_line) return;
  const contract::FinishedEvent event{
      .result = summary.result,
      .accuracy = summary.accuracy,
      .loss = summary.loss,
      .epochs = summary.epochs,
      .steps = summary.steps,
      .samples_per_second = summary.samples_per_second,
      .restarts = options_.restarts,
      .checkpoint = summary.checkpoint,
      .seconds = summary.seconds,
  };
  sink_.write(to_json(event) + '\n', kLastWordsPatience);
}

}  // namespace coxswain::report
