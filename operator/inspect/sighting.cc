#include "operator/inspect/sighting.h"

#include <charconv>

#include "operator/cluster/pod.h"
#include "operator/cluster/pod_json.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::inspect {

namespace {

using cluster::member;
using cluster::text_at;

std::optional<int> attempt_of(const job::Json& event) {
  const std::string text =
      text_at(member(member(event, "metadata"), "annotations"), cluster::kAttemptLabel);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<PastEvent> read_event(const job::Json& object) {
  auto time = parse_rfc3339(text_at(object, "eventTime"));
  if (!time) time = parse_rfc3339(text_at(object, "lastTimestamp"));
  if (!time) time = parse_rfc3339(text_at(member(object, "metadata"), "creationTimestamp"));
  const std::string reason = text_at(object, "reason");
  if (!time || reason.empty()) return std::nullopt;
  return PastEvent{.time = *time,
                   .attempt = attempt_of(object),
                   .warning = text_at(object, "type") == "Warning",
                   .reason = reason,
                   .message = text_at(object, "message")};
}

}  // namespace coxswain::inspect
