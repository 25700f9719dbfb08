#pragma once

#include <span>
#include <string_view>

#include "trainer/checkpoint/weights_file.h"

namespace coxswain::checkpoint {

// Whether bytes begin as a file of MXNet's that holds a list of arrays.
bool is_mxnet(std::span<const std::byte> bytes);

ForeignWeights decode_mxnet(std::span<const std::byte> bytes, std::string_view where);

}  // namespace coxswain::checkpoint
