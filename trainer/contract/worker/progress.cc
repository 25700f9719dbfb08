#include "trainer/contract/worker/progress.h"

#include <cmath>

#include "trainer/contract/printable.h"
#include "trainer/contract/worker/json_fields.h"
#include "trainer/contract/worker/progress_json.h"

namespace coxswain::contract {

namespace {

constexpr std::size_t kMaxPathBytes = 1024;

// With as many decimals as people read: it stands in tables and in every status.
void put(nlohmann::ordered_json& object, const char* name, const std::optional<double>& value,
         int decimals) {
  if (!value || !std::isfinite(*value)) return;
  const double scale = std::pow(10, decimals);
  object[name] = std::round(*value * scale) / scale;
}

}  // namespace

nlohmann::ordered_json to_json_object(const Progress& progress) {
  nlohmann::ordered_json object;
  object["epoch"] = progress.epoch;
  object["epochs"] = progress.epochs;
  object["step"] = progress.step;
  object["steps"] = progress.steps;
  put(object, "loss", progress.loss, 6);
  put(object, "accuracy", progress.accuracy, 4);
  put(object, "top5", progress.top5, 4);
  put(object, "lr", progress.lr, 9);
  put(object, "samplesPerSecond", progress.samples_per_second, 1);
  put(object, "secondsLeft", progress.seconds_left, 1);
  object["worldSize"] = progress.world_size;
  put(object, "scalingEfficiency", progress.scaling_efficiency, 4);
  put(object, "oneRankEfficiency", progress.one_rank_efficiency, 4);
  put(object, "epochSeconds", progress.epoch_seconds, 2);
  put(object, "seconds", progress.seconds, 1);
  put(object, "testAccuracy", progress.test_accuracy, 4);
  put(object, "testLoss", progress.test_loss, 6);
  put(object, "pushesPerSecond", progress.pushes_per_second, 1);
  put(object, "staleness", progress.staleness, 2);
  if (!progress.time.empty()) object["time"] = progress.time;
  return object;
}

nlohmann::ordered_json to_json_object(const CheckpointProgress& checkpoint) {
  nlohmann::ordered_json object;
  object["step"] = checkpoint.step;
  if (!checkpoint.time.empty()) object["time"] = checkpoint.time;
  object["path"] = shortened(checkpoint.path, kMaxPathBytes);
  object["bytes"] = checkpoint.bytes;
  return object;
}

std::optional<Progress> progress_from(const nlohmann::json& json) {
  Progress progress;
  JsonFields fields(json);
  fields.read("epoch", progress.epoch);
  fields.read("epochs", progress.epochs);
  fields.read("step", progress.step);
  fields.read("steps", progress.steps);
  fields.read("loss", progress.loss);
  fields.read("accuracy", progress.accuracy);
  fields.read("samplesPerSecond", progress.samples_per_second);
  fields.read("secondsLeft", progress.seconds_left);
  fields.read("worldSize", progress.world_size);
  fields.read("scalingEfficiency", progress.scaling_efficiency);
  fields.read("top5", progress.top5);
  fields.read("lr", progress.lr);
  fields.read("oneRankEfficiency", progress.one_rank_efficiency);
  fields.read("epochSeconds", progress.epoch_seconds);
  fields.read("seconds", progress.seconds);
  fields.read("testAccuracy", progress.test_accuracy);
  fields.read("testLoss", progress.test_loss);
  fields.read("pushesPerSecond", progress.pushes_per_second);
  fields.read("staleness", progress.staleness);
  fields.read("time", progress.time);
  return fields.ok() ? std::optional(progress) : std::nullopt;
}

std::optional<CheckpointProgress> checkpoint_from(const nlohmann::json& json) {
  CheckpointProgress checkpoint;
  JsonFields fields(json);
  fields.read("step", checkpoint.step);
  fields.read("time", checkpoint.time);
  fields.read("path", checkpoint.path);
  fields.read("bytes", checkpoint.bytes);
  return fields.ok() ? std::optional(checkpoint) : std::nullopt;
}

std::string to_json(const ProgressDocument& document) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  if (document.progress) object["progress"] = to_json_object(*document.progress);
  if (document.checkpoint) object["checkpoint"] = to_json_object(*document.checkpoint);
  return dump(object);
}

std::optional<ProgressDocument> parse_progress(std::string_view json) {
  const auto object = parse_object(json, kMaxProgressBytes);
  if (!object) return std::nullopt;
  ProgressDocument document;
  const JsonFields fields(*object);
  if (const auto* progress = fields.member("progress")) {
    document.progress = progress_from(*progress);
    if (!document.progress) return std::nullopt;
  }
  if (const auto* checkpoint = fields.member("checkpoint")) {
    document.checkpoint = checkpoint_from(*checkpoint);
    if (!document.checkpoint) return std::nullopt;
  }
  return document;
}

}  // namespace coxswain::contract
