#include "operator/kube/list_page.h"

#include <utility>

#include "operator/kube/watch.h"

namespace coxswain::kube {

std::optional<ListPage> parse_list_page(std::string_view text,
                                        const std::function<void(Json item)>& on_item) {
  if (nested_too_deep(text)) return std::nullopt;
  std::string key;  // of the list itself
  const auto on_value = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::key && depth == 1) key = value.get<std::string>();
    if (event != Json::parse_event_t::object_end || depth != 2 || key != "items") return true;
    on_item(std::move(value));
    return false;  // out of the list
  };
  const Json list = Json::parse(text, on_value, /*allow_exceptions=*/false);
  if (!list.is_object()) return std::nullopt;
  const auto metadata = list.find("metadata");
  const auto items = list.find("items");
  if (metadata == list.end() || !metadata->is_object()) return std::nullopt;
  // What is left in `items` was no object.
  if (items != list.end() && !items->is_null() && !(items->is_array() && items->empty()))
    return std::nullopt;
  ListPage page{text_of(*metadata, "resourceVersion"), text_of(*metadata, "continue")};
  if (page.version.empty()) return std::nullopt;
  return page;
}

}  // namespace coxswain::kube
