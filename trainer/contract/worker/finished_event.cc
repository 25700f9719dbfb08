#include "trainer/contract/worker/finished_event.h"

#include "trainer/contract/worker/json_fields.h"

namespace coxswain::contract {

namespace {

nlohmann::ordered_json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json count_or_null(const std::optional<std::int64_t>& count) {
  return count ? nlohmann::ordered_json(*count) : nlohmann::ordered_json();
}

}  // namespace

std::string to_json(const FinishedEvent& event) {
  nlohmann::ordered_json object;
  object["event"] = "finished";
  object["result"] = event.result;
  object["accuracy"] = number_or_null(event.accuracy);
  object["loss"] = number_or_null(event.loss);
  object["epochs"] = count_or_null(event.epochs);
  object["steps"] = count_or_null(event.steps);
  object["samplesPerSecond"] = number_or_null(event.samples_per_second);
  object["restarts"] = event.restarts;
  object["checkpoint"] = event.checkpoint.empty() ? nlohmann::ordered_json()
                                                  : nlohmann::ordered_json(event.checkpoint);
  if (event.seconds) object["seconds"] = number_or_null(event.seconds);
  return dump(object);
}

}  // namespace coxswain::contract
