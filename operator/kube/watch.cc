#include "operator/kube/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/contract/printable.h"
#include "trainer/contract/worker/json_fields.h"

namespace coxswain::kube {

namespace {

constexpr std::size_t kMaxMessageBytes = 1024;

std::optional<WatchEventType> type_of(const Json& word) {
  if (word == "ADDED") return WatchEventType::kAdded;
  if (word == "MODIFIED") return WatchEventType::kModified;
  if (word == "DELETED") return WatchEventType::kDeleted;
  if (word == "BOOKMARK") return WatchEventType::kBookmark;
  if (word == "ERROR") return WatchEventType::kError;
  return std::nullopt;
}

// For a code whose answer gives no reason of its own.
std::string usual_reason(int code) {
  switch (code) {
    case 0:
      return "NoAnswer";
    case 400:
      return "BadRequest";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "NotFound";
    case 409:
      return "Conflict";
    case 410:
      return "Expired";
    case 422:
      return "Invalid";
    case 429:
      return "TooManyRequests";
    case 500:
      return "InternalError";
    case 503:
      return "ServiceUnavailable";
    case 504:
      return "Timeout";
    default:
      return code >= 300 && code < 400 ? "Redirect" : "Unknown";
  }
}

// What others said, for a line of a log: no control characters, and not too long.
std::string one_line(std::string_view said) {
  std::string text = shortened(said, kMaxMessageBytes);
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  return text;
}

std::optional<std::chrono::seconds> delay_of(const Json& status) {
  const Json& seconds = contract::member(contract::member(status, "details"), "retryAfterSeconds");
  if (!seconds.is_number_unsigned()) return std::nullopt;
  return std::chrono::seconds(std::min(seconds.get<std::uint64_t>(), std::uint64_t{3600}));
}

// A body that is no Status is not repeated: it may be anybody's page, and may echo a header.
std::string explain(int code, std::string_view body) {
  if (code == 0) return one_line(body);
  if (code >= 300 && code < 400) {
    return "the server redirects, which is not followed; is its address right?";
  }
  const std::size_t start = body.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return "the answer is empty";
  if (body[start] == '<')
    return "the answer is a page, not of the API; is the server's address right?";
  return fmt::format("the answer ({} bytes) is no Status of the API", body.size());
}

}  // namespace

std::optional<WatchEvent> parse_watch_event(std::string_view line, const LeftOut& left_out) {
  std::optional<Json> event = parse_envelope(line, left_out);
  if (!event) return std::nullopt;
  const auto word = event->find("type");
  const auto object = event->find("object");
  if (word == event->end() || object == event->end() || !object->is_object()) return std::nullopt;
  const auto type = type_of(*word);
  if (!type) return std::nullopt;
  return WatchEvent{*type, std::move(*object)};
}

bool LineBuffer::add(std::string_view piece,
                     const std::function<bool(std::string_view line)>& on_line) {
  while (true) {
    const std::size_t end = piece.find('\n');
    if (rest_.size() + std::min(end, piece.size()) > kMaxLineBytes) return false;
    if (end == std::string_view::npos) break;
    if (rest_.empty()) {
      if (!on_line(piece.substr(0, end))) return false;
    } else {
      rest_.append(piece.substr(0, end));
      if (!on_line(std::exchange(rest_, {}))) return false;
    }
    piece.remove_prefix(end + 1);
  }
  rest_.append(piece);
  return true;
}

ApiError error_of(int code, std::string_view body,
                  std::optional<std::chrono::seconds> retry_after) {
  ApiError error{
      .code = code, .reason = usual_reason(code), .message = {}, .retry_after = retry_after};
  const std::optional<Json> status = code == 0 ? std::nullopt : parse_object(body);
  if (!status || contract::text_at(*status, "kind") != "Status") {
    error.message = explain(code, body);
    return error;
  }
  error.message = one_line(contract::text_at(*status, "message"));
  if (const std::string reason = contract::text_at(*status, "reason"); !reason.empty())
    error.reason = one_line(reason);
  if (!error.retry_after) error.retry_after = delay_of(*status);
  return error;
}

}  // namespace coxswain::kube
