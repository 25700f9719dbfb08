#include <fmt/format.h>

#include <limits>

#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/format_json.h"

namespace coxswain::checkpoint {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// 2: rolled_over and dataset. Version 1 is read as nothing rolled over, of a dataset not known.
// 3: pushes_exactly is true; written only then, so that older programs read all others.
// 4: class names, and what evaluations are compared with; alike, and pushes_exactly always stands
// there.
// 5: a loss scale other than 1, a network of the user's own, alike; what came with 4 always stands
// there.
// 6: algorithms that were timed; what came with 5 always stands there.
constexpr std::int64_t kStateVersion = 6;
constexpr std::int64_t kNetworkVersion = 5;
constexpr std::int64_t kScoresVersion = 4;
constexpr std::int64_t kExactVersion = 3;
constexpr std::int64_t kUsualVersion = 2;
constexpr int kStateDepth = 2;
constexpr std::int64_t kMaxRolledOver = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kMaxWorldSize = 1 << 20;
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxSteps = (std::int64_t{1} << 53) - 1;  // exact in every reader of JSON
constexpr std::int64_t kMaxSamples = std::int64_t{1} << 40;      // in an epoch
constexpr std::int64_t kMaxGlobalBatch = std::int64_t{1} << 54;  // most ranks, largest batches
// Epochs times samples (32 bits) stay within 64 bits.
constexpr std::int64_t kMaxEpoch = (std::int64_t{1} << 30) - 1;

std::map<std::string, std::string> decode_texts(const json& object, const char* name,
                                                std::string_view where) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string())
      refuse(where, in_quotes(fmt::format("{}.{}", name, key)) + " is not a string");
    texts.emplace(key, value.get<std::string>());
  }
  return texts;
}

std::vector<std::string> decode_names(const json& array, std::string_view where) {
  std::vector<std::string> names;
  for (const json& name : array) {
    if (!name.is_string()) refuse(where, "\"class_names\" holds what is not a string");
    names.push_back(name.get<std::string>());
  }
  return names;
}

constexpr double kMaxLossScale = 16777216;

bool tells_scores(const State& state) {
  return !state.class_names.empty() || state.best_accuracy >= 0 || state.watched_epoch > 0 ||
         state.without_better > 0;
}

std::int64_t version_of(const State& state) {
  if (!state.algorithms.empty()) return kStateVersion;
  if (state.loss_scale != 1 || !state.network.empty()) return kNetworkVersion;
  if (tells_scores(state)) return kScoresVersion;
  return state.pushes_exactly ? kExactVersion : kUsualVersion;
}

}  // namespace

std::string encode(const State& state) {
  ordered_json object = {{"version", version_of(state)},
                         {"step", state.step},
                         {"update_count", state.update_count},
                         {"epoch", state.epoch},
                         {"samples_in_epoch", state.samples_in_epoch},
                         {"rolled_over", state.rolled_over},
                         {"total_steps", state.total_steps},
                         {"skipped_in_a_row", state.skipped_in_a_row},
                         {"world_size", state.world_size},
                         {"global_batch", state.global_batch},
                         {"attempt", state.attempt},
                         {"epoch_loss_sum", state.epoch_loss_sum},
                         {"epoch_correct", state.epoch_correct},
                         {"epoch_samples", state.epoch_samples},
                         {"last_accuracy", state.last_accuracy},
                         {"last_loss", state.last_loss},
                         {"finished", state.finished},
                         {"fingerprint", state.fingerprint},
                         {"identity", json(state.identity)},
                         {"trajectory", json(state.trajectory)},
                         {"dataset", json(state.dataset)}};
  if (version_of(state) >= kExactVersion) object["pushes_exactly"] = state.pushes_exactly;
  if (version_of(state) >= kScoresVersion) {
    object["class_names"] = state.class_names;
    object["best_accuracy"] = state.best_accuracy;
    object["watched_best"] = state.watched_best;
    object["watched_epoch"] = state.watched_epoch;
    object["without_better"] = state.without_better;
  }
  if (version_of(state) >= kNetworkVersion) {
    object["loss_scale"] = state.loss_scale;
    object["clean_steps"] = state.clean_steps;
    object["network"] = state.network;
  }
  if (version_of(state) >= kStateVersion) object["algorithms"] = state.algorithms;
  // A path in the configuration need not be UTF-8.
  return object.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

State decode_state(std::string_view text, std::string_view where) {
  const json parsed = parse_json_object(text, kStateDepth, where);
  JsonFields fields(parsed, std::string(where));
  const std::int64_t version = fields.integer("version", 1);
  if (version > kStateVersion) {
    refuse(where, fmt::format("format version {} is newer than this program reads ({})", version,
                              kStateVersion));
  }
  State state;
  state.step = fields.integer("step", 0, kMaxSteps);
  state.update_count = fields.integer("update_count", 0, kMaxSteps);
  state.epoch = fields.integer("epoch", 0, kMaxEpoch);
  state.samples_in_epoch = fields.integer("samples_in_epoch", 0, kMaxSamples);
  state.total_steps = fields.integer("total_steps", 0, kMaxSteps);
  state.skipped_in_a_row = fields.integer("skipped_in_a_row", 0, kMaxInt);
  state.world_size = static_cast<int>(fields.integer("world_size", 1, kMaxWorldSize));
  state.global_batch = fields.integer("global_batch", 1, kMaxGlobalBatch);
  state.attempt = fields.integer("attempt", 0, kMaxInt);
  state.epoch_loss_sum = fields.number("epoch_loss_sum");
  state.epoch_correct = fields.integer("epoch_correct", 0, kMaxSamples);
  state.epoch_samples = fields.integer("epoch_samples", 0, kMaxSamples);
  state.last_accuracy = fields.number("last_accuracy", -1, 1);
  state.last_loss = fields.number("last_loss");
  state.finished = fields.boolean("finished");
  state.fingerprint = fields.text("fingerprint");
  state.identity = decode_texts(fields.object("identity"), "identity", where);
  state.trajectory = decode_texts(fields.object("trajectory"), "trajectory", where);
  if (version > 1) {
    state.rolled_over = fields.integer("rolled_over", 0, kMaxRolledOver);
    state.dataset = decode_texts(fields.object("dataset"), "dataset", where);
  }
  if (version >= kExactVersion) state.pushes_exactly = fields.boolean("pushes_exactly");
  if (version >= kScoresVersion) {
    state.class_names = decode_names(fields.array("class_names"), where);
    state.best_accuracy = fields.number("best_accuracy", -1, 1);
    state.watched_best = fields.number("watched_best");
    state.watched_epoch = fields.integer("watched_epoch", 0, kMaxEpoch + 1);
    state.without_better = fields.integer("without_better", 0, kMaxEpoch);
  }
  if (version >= kNetworkVersion) {
    state.loss_scale = fields.number("loss_scale", 1, kMaxLossScale);
    state.clean_steps = fields.integer("clean_steps", 0, kMaxSteps);
    state.network = fields.text("network");
  }
  if (version >= kStateVersion)
    state.algorithms = decode_texts(fields.object("algorithms"), "algorithms", where);
  fields.finish();
  return state;
}

}  // namespace coxswain::checkpoint
