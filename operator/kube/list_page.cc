#include "operator/kube/list_page.h"

#include "trainer/contract/worker/json_fields.h"

namespace coxswain::kube {

std::optional<ListPage> parse_list_page(std::string_view text, const LeftOut& left_out,
                                        const std::function<void(Json item)>& on_item) {
  const std::optional<Json> list = parse_list(text, left_out, on_item);
  if (!list) return std::nullopt;
  const Json& metadata = contract::member(*list, "metadata");
  const auto items = list->find("items");
  if (!metadata.is_object()) return std::nullopt;
  // What is left in `items` was no object.
  if (items != list->end() && !items->is_null() && !(items->is_array() && items->empty()))
    return std::nullopt;
  ListPage page{contract::text_at(metadata, "resourceVersion"),
                contract::text_at(metadata, "continue")};
  if (page.version.empty()) return std::nullopt;
  return page;
}

}  // namespace coxswain::kube
