#include <fmt/format.h>

#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/format_json.h"

namespace coxswain::checkpoint {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kMaxDepth = 2;
constexpr std::int64_t kMaxWorldSize = 1 << 20;

std::map<std::string, std::string> decode_texts(const json& object, const char* name,
                                                std::string_view where) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) refuse(where, fmt::format("\"{}.{}\" is not a string", name, key));
    texts.emplace(key, value.get<std::string>());
  }
  return texts;
}

}  // namespace

std::string encode(const State& state) {
  const ordered_json object = {{"version", kFormatVersion},
                               {"step", state.step},
                               {"update_count", state.update_count},
                               {"epoch", state.epoch},
                               {"samples_in_epoch", state.samples_in_epoch},
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
                               {"trajectory", json(state.trajectory)}};
  // A path in the configuration need not be UTF-8.
  return object.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

State decode_state(std::string_view text, std::string_view where) {
  const json parsed = parse_json_object(text, kMaxDepth, where);
  JsonFields fields(parsed, std::string(where));
  const std::int64_t version = fields.integer("version", 1);
  if (version > kFormatVersion) {
    refuse(where, fmt::format("format version {} is newer than this program reads ({})", version,
                              kFormatVersion));
  }
  State state;
  state.step = fields.integer("step");
  state.update_count = fields.integer("update_count");
  state.epoch = fields.integer("epoch");
  state.samples_in_epoch = fields.integer("samples_in_epoch");
  state.total_steps = fields.integer("total_steps");
  state.skipped_in_a_row = fields.integer("skipped_in_a_row");
  state.world_size = static_cast<int>(fields.integer("world_size", 1, kMaxWorldSize));
  state.global_batch = fields.integer("global_batch");
  state.attempt = fields.integer("attempt");
  state.epoch_loss_sum = fields.number("epoch_loss_sum");
  state.epoch_correct = fields.integer("epoch_correct");
  state.epoch_samples = fields.integer("epoch_samples");
  state.last_accuracy = fields.number("last_accuracy");
  state.last_loss = fields.number("last_loss");
  state.finished = fields.boolean("finished");
  state.fingerprint = fields.text("fingerprint");
  state.identity = decode_texts(fields.object("identity"), "identity", where);
  state.trajectory = decode_texts(fields.object("trajectory"), "trajectory", where);
  fields.finish();
  return state;
}

}  // namespace coxswain::checkpoint
