#include "trainer/backend/executable.h"

#include <algorithm>

namespace coxswain::backend {

LossSums forward(Executable& executable, const Batch& batch) {
  executable.load(batch);
  const int end = executable.program().first_backward;
  for (int step = 0; step < end; ++step) executable.run(step);
  return executable.sums();
}

void backward(Executable& executable, const OnGradients& on_gradients) {
  const graph::Program& program = executable.program();
  const auto statistics = std::count_if(
      program.parameters.begin(), program.parameters.end(),
      [](const graph::Parameter& p) { return p.kind == tensor::SegmentKind::kStatistic; });
  int complete = static_cast<int>(statistics);
  on_gradients(complete);
  for (int step = program.first_backward; step < static_cast<int>(program.steps.size()); ++step) {
    executable.run(step);
    const auto& completes = program.steps[static_cast<std::size_t>(step)].completes;
    if (completes.empty()) continue;
    complete = std::max(complete, *std::max_element(completes.begin(), completes.end()) + 1);
    on_gradients(complete);
  }
}

}  // namespace coxswain::backend
