#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "operator/kube/json_reader.h"
#include "operator/kube/list_page.h"
#include "operator/kube/watch.h"

namespace {

using namespace coxswain;

const kube::LeftOut kLeftOut{{"metadata", "managedFields"}, {"spec", "containers"}};

std::vector<std::string> lines_of(std::string_view first, std::string_view second) {
  kube::LineBuffer buffer;
  std::vector<std::string> lines;
  const auto take = [&](std::string_view line) {
    lines.emplace_back(line);
    return true;
  };
  if (!buffer.add(first, take) || !buffer.add(second, take)) std::abort();
  return lines;
}

std::size_t depth_of(const kube::Json& value) {
  if (!value.is_structured()) return 0;
  std::size_t deepest = 0;
  for (const kube::Json& member : value) deepest = std::max(deepest, depth_of(member));
  return 1 + deepest;
}

// What is left out changes nothing else.
void compare_without(std::string_view line, kube::Json object) {
  const auto event = kube::parse_watch_event(line, kLeftOut);
  if (!event) std::abort();
  for (const auto& [outer, inner] : kLeftOut) {
    const auto member = object.find(outer);
    if (member != object.end() && member->is_object()) member->erase(std::string(inner));
  }
  // What is left out may have been the one that was too deep.
  if (kube::without_mark(event->object) != kube::without_mark(object)) std::abort();
}

}  // namespace

// Any bytes are lines, events, a list and an error, or none; where the stream was cut is all one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(input), size);
  const std::vector<std::string> lines = lines_of(text, "");
  if (lines_of(text.substr(0, size / 2), text.substr(size / 2)) != lines) std::abort();
  for (const std::string& line : lines) {
    if (const auto event = kube::parse_watch_event(line)) {
      if (!event->object.is_object() || depth_of(event->object) > kube::kMaxDepth) std::abort();
      compare_without(line, event->object);
      (void)kube::meta_of(event->object);
    }
  }
  (void)kube::parse_list_page(text, kLeftOut, [](const kube::Json& item) {
    if (!item.is_object()) std::abort();
  });
  if (kube::error_of(500, text, {}).message.size() > 1024) std::abort();
  return 0;
}
