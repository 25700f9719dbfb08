#pragma once

#include <map>
#include <string>
#include <vector>

namespace coxswain::backend {

// By a layer's name: what it is computed with, where a device knows several algorithms for it. The
// results differ by rounding alone.
using Algorithms = std::map<std::string, std::string>;

// By a layer's name: the algorithms it may take, the device's own choice first; two or more.
using AlgorithmChoices = std::map<std::string, std::vector<std::string>>;

}  // namespace coxswain::backend
