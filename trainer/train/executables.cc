#include "trainer/train/executables.h"

namespace coxswain::train {

backend::Executable& Executables::get(graph::Mode mode, std::int64_t rows) {
  auto& executable = prepared_[{mode, rows}];
  if (!executable) {
    executable = backend_.prepare(graph::compile(graph_, rows, precision_, mode), parameters_);
    executable->parameters_changed();
  }
  return *executable;
}

void Executables::parameters_changed() {
  for (auto& [key, executable] : prepared_) executable->parameters_changed();
}

}  // namespace coxswain::train
