#include "operator/inspect/story_file.h"

#include "operator/job/job_reader.h"
#include "trainer/contract/rfc3339.h"
#include "trainer/contract/worker/json_fields.h"

namespace coxswain::inspect {

namespace {

constexpr std::size_t kMostOfStory = 8 << 20;

job::Json to_json(const PastEvent& event) {
  job::Json json = {{"time", to_rfc3339(event.time)},
                    {"warning", event.warning},
                    {"reason", event.reason},
                    {"message", event.message}};
  if (event.attempt) json["attempt"] = *event.attempt;
  return json;
}

std::optional<PastEvent> read_past_event(const job::Json& json) {
  const auto time = parse_rfc3339(contract::text_at(json, "time"));
  if (!time) return std::nullopt;
  PastEvent event{.time = *time,
                  .attempt = std::nullopt,
                  .warning = contract::member(json, "warning") == true,
                  .reason = contract::text_at(json, "reason"),
                  .message = contract::text_at(json, "message")};
  contract::JsonFields(json).read("attempt", event.attempt);
  return event;
}

}  // namespace

std::string to_json(const Story& story) {
  job::Json events = job::Json::array();
  for (const PastEvent& event : story.events) events.push_back(to_json(event));
  const job::Json json = {
      {"job", job::to_json(story.job)}, {"events", events}, {"process", story.process}};
  return json.dump(-1, ' ', false, job::Json::error_handler_t::replace) + "\n";
}

std::optional<Story> parse_story(std::string_view text) {
  const auto json = contract::parse_object(text, kMostOfStory);
  if (!json || !contract::member(*json, "job").is_object()) return std::nullopt;
  Story story;
  story.job = job::read_job(contract::member(*json, "job"));
  contract::JsonFields(*json).read("process", story.process);
  for (const job::Json& each : contract::list_at(*json, "events"))
    if (auto event = read_past_event(each)) story.events.push_back(std::move(*event));
  return story;
}

}  // namespace coxswain::inspect
