#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/kube/object.h"

// PURE: JSON of the API server, in one pass and with limits.
namespace coxswain::kube {

inline constexpr std::size_t kMaxDepth = 64;  // of objects and lists in each other

// Value. Members of an object's direct members that nobody asks for, such as {"spec", "volumes"}:
// they are read over, and cost neither time nor memory to keep.
using LeftOut = std::vector<std::pair<std::string_view, std::string_view>>;

// nullopt for what is no JSON object, or is nested deeper than kMaxDepth; the same holds below.
std::optional<Json> parse_object(std::string_view text, const LeftOut& left_out = {});

// An object around another, as in a watch: `left_out` is of every object that is a direct member.
std::optional<Json> parse_envelope(std::string_view text, const LeftOut& left_out);

// Hands each object in the member `items` to `on_item` as soon as it is read, one at a time in
// memory; the list itself comes back with what in `items` is no object. After nullopt some items
// may have been handed on.
std::optional<Json> parse_list(std::string_view text, const LeftOut& left_out,
                               const std::function<void(Json item)>& on_item);

}  // namespace coxswain::kube
