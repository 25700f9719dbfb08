#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "operator/kube/list_page.h"
#include "operator/kube/watch.h"

namespace {

using namespace coxswain;

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

}  // namespace

// Any bytes are lines, events, a list and an error, or none; where the stream was cut is all one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(input), size);
  const std::vector<std::string> lines = lines_of(text, "");
  if (lines_of(text.substr(0, size / 2), text.substr(size / 2)) != lines) std::abort();
  for (const std::string& line : lines) {
    if (const auto event = kube::parse_watch_event(line)) {
      if (!event->object.is_object() || kube::nested_too_deep(line)) std::abort();
      (void)kube::meta_of(event->object);
    }
  }
  (void)kube::parse_list_page(text, [](const kube::Json& item) {
    if (!item.is_object()) std::abort();
  });
  if (kube::error_of(500, text, {}).message.size() > 1024) std::abort();
  return 0;
}
