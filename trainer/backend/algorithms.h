#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace coxswain::backend {

// By a layer's name: what it is computed with, where a device knows several algorithms for it. The
// results differ by rounding alone. Where each pass has its own: by conv1.forward, conv1.data (its
// input's gradient) and conv1.weights.
using Algorithms = std::map<std::string, std::string>;

// By the same names: the algorithms it may take, the device's own choice first; two or more.
using AlgorithmChoices = std::map<std::string, std::vector<std::string>>;

// What was tried, by the same names: the device's own choice first.
struct TimedAlgorithm {
  std::string name;
  double seconds = 0;  // of a training step
  bool operator==(const TimedAlgorithm&) const = default;
};
using AlgorithmTimes = std::map<std::string, std::vector<TimedAlgorithm>>;

// Whether there is time to try another.
using KeepOn = std::function<bool()>;

}  // namespace coxswain::backend
