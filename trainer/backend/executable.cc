#include "trainer/backend/executable.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/backend/control.h"
#include "trainer/contract/error.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::backend {

void check(const graph::Program& program, const Batch& batch) {
  const tensor::Shape& shape = program.graph.input().shape;
  const std::int64_t classes = program.graph.logits().shape.c;
  const auto rows = static_cast<std::size_t>(shape.n);
  if (std::ssize(batch.images.bytes) != shape.elements() ||
      std::ssize(batch.images.table) != shape.c * tensor::kPixelValues ||
      batch.labels.size() != rows || batch.sample_ids.size() != rows || batch.valid < 0 ||
      batch.valid > shape.n || batch.shares.size() != batch.partner_labels.size() ||
      (!batch.shares.empty() && batch.shares.size() != rows)) {
    throw Error(
        ExitCode::kInternal,
        fmt::format("[backend] a batch of {} bytes and {} labels, {} valid, for an input of {}",
                    batch.images.bytes.size(), batch.labels.size(), batch.valid,
                    tensor::to_text(shape)));
  }
  const auto require_class = [&](std::size_t n, std::int32_t label, const char* whose) {
    if (label >= 0 && label < classes) return;
    throw Error(ExitCode::kBadInput,
                fmt::format("[data] {}sample {} has label {}, but the model has {} classes", whose,
                            batch.sample_ids[n], label, classes));
  };
  for (std::size_t n = 0; n < static_cast<std::size_t>(batch.valid); ++n) {
    require_class(n, batch.labels[n], "");
    if (!batch.shares.empty()) require_class(n, batch.partner_labels[n], "the partner of ");
  }
}

void Executable::write_sums(const tensor::Slice& control) const {
  backend::write_sums(sums(), tensor::host_span(control));
}

void forward(Executable& executable, const Batch& batch) {
  executable.load(batch);
  const int end = executable.program().first_backward;
  for (int step = 0; step < end; ++step) executable.run(step);
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
