#pragma once

#include <algorithm>
#include <array>

#include "trainer/contract/config/data_fields.h"
#include "trainer/contract/config/run_fields.h"
#include "trainer/contract/config/update_fields.h"

// The table of the training configuration. It drives the YAML reader, the flags, nearest-key
// errors, --print-config, docs/training-configuration.md and the `training` part of the CRD.
namespace coxswain::contract {

template <std::size_t... Sizes>
constexpr auto joined(const std::array<Field, Sizes>&... parts) {
  std::array<Field, (Sizes + ...)> whole{};
  auto end = whole.begin();
  ((end = std::ranges::copy(parts, end).out), ...);
  return whole;
}

inline constexpr auto kFields = joined(kDataFields, kUpdateFields, kRunFields);

}  // namespace coxswain::contract
