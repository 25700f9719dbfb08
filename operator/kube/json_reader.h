#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/kube/object.h"

// PURE: JSON of the API server, in one pass and with limits.
namespace coxswain::kube {

inline constexpr std::size_t kMaxDepth = 64;  // of objects and lists in each other, in one object

// Value. Members of an object's direct members that nobody asks for, such as {"spec", "volumes"}:
// they are read over, and cost neither time nor memory to keep.
using LeftOut = std::vector<std::pair<std::string_view, std::string_view>>;

// nullopt for what is no JSON object; the same holds below. An object comes back although it is
// nested too deep, so that it harms no other: without what lies deeper, and too_deep() tells.
std::optional<Json> parse_object(std::string_view text, const LeftOut& left_out = {});

// An object around another, as in a watch: `left_out` is of every object that is a direct member.
std::optional<Json> parse_envelope(std::string_view text, const LeftOut& left_out);

// Hands each object in the member `items` to `on_item` as soon as it is read, one at a time in
// memory; the list itself comes back with what in `items` is no object. After nullopt some items
// may have been handed on.
std::optional<Json> parse_list(std::string_view text, const LeftOut& left_out,
                               const std::function<void(Json item)>& on_item);

// Which member of an object that was read was not read to its end, such as "spec.training", for it
// is nested deeper than kMaxDepth; none: the object is whole.
std::optional<std::string> too_deep(const Json& object);

// The object as it was read, without what too_deep() goes by.
Json without_mark(Json object);

}  // namespace coxswain::kube
