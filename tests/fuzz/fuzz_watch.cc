#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

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

// Depth by another count than the reader's: brackets outside of texts.
bool nested_too_deep(std::string_view json) {
  std::size_t depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') in_text = !in_text;
    if (in_text && c == '\\') ++i;
    if (in_text) continue;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kube::kMaxDepth) return true;
  }
  return false;
}

// What is left out changes nothing else.
void compare_without(std::string_view line, kube::Json object) {
  const auto event = kube::parse_watch_event(line, kLeftOut);
  if (!event) std::abort();
  for (const auto& [outer, inner] : kLeftOut) {
    const auto member = object.find(outer);
    if (member != object.end() && member->is_object()) member->erase(std::string(inner));
  }
  if (event->object != object) std::abort();
}

}  // namespace

// Any bytes are lines, events, a list and an error, or none; where the stream was cut is all one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(input), size);
  const std::vector<std::string> lines = lines_of(text, "");
  if (lines_of(text.substr(0, size / 2), text.substr(size / 2)) != lines) std::abort();
  for (const std::string& line : lines) {
    if (const auto event = kube::parse_watch_event(line)) {
      if (!event->object.is_object() || nested_too_deep(line)) std::abort();
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
