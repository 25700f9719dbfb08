#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace coxswain::contract {

// The candidate that `given` most likely means: same but for case, '-' and '_', a typing error or
// two, or the right last part in the wrong section ("lr" for "optimizer.lr"). Nothing when none is
// near.
std::optional<std::string_view> nearest_key(std::string_view given,
                                            std::span<const std::string_view> candidates);

}  // namespace coxswain::contract
