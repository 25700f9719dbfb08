#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/graph/passes.h"

namespace coxswain::train {

// Resource. One model made ready for each batch size that this rank meets, all over the same
// parameters.
class Executables {
 public:
  Executables(const graph::Graph& graph, Precision precision, backend::Backend& backend,
              backend::Parameters& parameters)
      : graph_(graph), precision_(precision), backend_(backend), parameters_(parameters) {}

  // Prepared at the first call for a size: call it for every size before training starts.
  backend::Executable& get(graph::Mode mode, std::int64_t rows);
  void parameters_changed();

 private:
  graph::Graph graph_;
  Precision precision_;
  backend::Backend& backend_;
  backend::Parameters& parameters_;
  std::map<std::pair<graph::Mode, std::int64_t>, std::unique_ptr<backend::Executable>> prepared_;
};

}  // namespace coxswain::train
