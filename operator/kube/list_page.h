#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "operator/kube/json_reader.h"

// PURE: what a page of a list holds.
namespace coxswain::kube {

// Value. What a page says besides its items.
struct ListPage {
  std::string version;         // metadata.resourceVersion
  std::string continue_token;  // empty: the last page
};

// Hands each item to `on_item` as soon as it is read: one at a time in memory. nullopt for what is
// no list; items before the place may have been handed on.
std::optional<ListPage> parse_list_page(std::string_view text, const LeftOut& left_out,
                                        const std::function<void(Json item)>& on_item);

}  // namespace coxswain::kube
