#include "trainer/contract/worker/termination_message.h"

#include <algorithm>

#include "trainer/contract/printable.h"
#include "trainer/contract/worker/json_fields.h"
#include "trainer/contract/worker/progress_json.h"

namespace coxswain::contract {

namespace {

constexpr std::size_t kMaxWordBytes = 64;
constexpr std::string_view kCut = "...";

std::string dump_message(const TerminationMessage& message) {
  nlohmann::ordered_json object;
  object["exitCode"] = message.exit_code;
  if (message.rank >= 0) object["rank"] = message.rank;
  if (!message.phase.empty()) object["phase"] = message.phase;
  if (!message.reason.empty()) object["reason"] = message.reason;
  if (!message.message.empty()) object["message"] = message.message;
  if (message.step) object["step"] = *message.step;
  if (message.progress) object["progress"] = to_json_object(*message.progress);
  if (message.checkpoint) object["checkpoint"] = to_json_object(*message.checkpoint);
  return dump(object);
}

}  // namespace

std::string to_json(const TerminationMessage& message) {
  TerminationMessage fitting = message;
  fitting.phase = shortened(fitting.phase, kMaxWordBytes, kCut);
  fitting.reason = shortened(fitting.reason, kMaxWordBytes, kCut);
  fitting.message = shortened(fitting.message, kMaxTerminationMessageBytes, kCut);
  std::string json = dump_message(fitting);
  // Escapes make JSON longer than the text, so what is over is taken off again and again.
  while (json.size() > kMaxTerminationMessageBytes && fitting.message.size() > kCut.size()) {
    const std::size_t over = json.size() - kMaxTerminationMessageBytes;
    const std::size_t size = fitting.message.size();
    const std::size_t limit = size - std::min(size, std::max(over / 6, kCut.size()));
    fitting.message = shortened(fitting.message, limit, kCut);
    json = dump_message(fitting);
  }
  if (json.size() > kMaxTerminationMessageBytes) {
    fitting.progress.reset();
    json = dump_message(fitting);
  }
  if (json.size() > kMaxTerminationMessageBytes) {
    fitting.checkpoint.reset();
    json = dump_message(fitting);
  }
  return json;
}

std::optional<TerminationMessage> parse_termination_message(std::string_view json) {
  const auto object = parse_object(json, kMaxTerminationMessageBytes);
  if (!object || !object->contains("exitCode")) return std::nullopt;
  TerminationMessage message;
  JsonFields fields(*object);
  fields.read("exitCode", message.exit_code);
  fields.read("rank", message.rank);
  fields.read("phase", message.phase);
  fields.read("reason", message.reason);
  fields.read("message", message.message);
  fields.read("step", message.step);
  if (const auto* progress = fields.member("progress")) {
    message.progress = progress_from(*progress);
    if (!message.progress) fields.spoil();
  }
  if (const auto* checkpoint = fields.member("checkpoint")) {
    message.checkpoint = checkpoint_from(*checkpoint);
    if (!message.checkpoint) fields.spoil();
  }
  return fields.ok() ? std::optional(message) : std::nullopt;
}

}  // namespace coxswain::contract
