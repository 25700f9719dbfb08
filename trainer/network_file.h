#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/graph/models/layer_list.h"

namespace coxswain {

// Value. A network that a user wrote down (docs/networks.md).
struct NetworkFile {
  tensor::Shape input = {1, 0, 0, 0};  // what it was written for; 0: not said
  std::int64_t classes = 10;
  std::vector<graph::Layer> layers;
  std::string text;
};

// Throws Error (65) "net.yaml:12: what" for what is not one: at most 2,000 layers, 8 levels deep,
// 64 KiB.
NetworkFile parse_network(std::string_view text, const std::string& name);
NetworkFile read_network(const std::filesystem::path& file);

}  // namespace coxswain
