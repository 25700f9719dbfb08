#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/graph/graph.h"

namespace coxswain::test {

// Value. A small model around one operation or a few.
struct OperationCase {
  std::string name;
  graph::Shape input;
  std::function<int(graph::Builder&)> build;  // returns the logits: one value a class
};

// Channel counts that are no multiple of a vector, windows that leave rows over, every operation.
std::vector<OperationCase> operation_cases();

graph::Graph model_of(const OperationCase& c);

}  // namespace coxswain::test
