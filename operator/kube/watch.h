#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "operator/kube/json_reader.h"
#include "operator/kube/object.h"
#include "operator/kube/result.h"

// PURE: what a watch's bytes mean.
namespace coxswain::kube {

enum class WatchEventType { kAdded, kModified, kDeleted, kBookmark, kError };

struct WatchEvent {
  WatchEventType type = WatchEventType::kAdded;
  Json object;  // of a bookmark: only metadata.resourceVersion; of an error: a Status
};

// etcd takes objects of 1.5 MiB, and JSON writes a byte of them as six at most.
inline constexpr std::size_t kMaxLineBytes = 16 << 20;

// One line of a watch. nullopt for what is no event of a known type, or no JSON: the watch is then
// given up, and everything listed anew.
std::optional<WatchEvent> parse_watch_event(std::string_view line, const LeftOut& left_out = {});

// Cuts a stream into lines. Value.
class LineBuffer {
 public:
  // Calls `on_line` for every line that ends in `piece`; false when one grew over kMaxLineBytes or
  // `on_line` said false: nothing more may be added.
  bool add(std::string_view piece, const std::function<bool(std::string_view line)>& on_line);

 private:
  std::string rest_;
};

// The Status of an answer other than 2xx, whatever it holds (HTML, nothing, a lie).
ApiError error_of(int code, std::string_view body, std::optional<std::chrono::seconds> retry_after);

}  // namespace coxswain::kube
