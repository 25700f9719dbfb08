#include "trainer/train/padding.h"

#include <gtest/gtest.h>

#include "trainer/backend/onednn/onednn_backend.h"
#include "trainer/graph/models/models.h"
#include "trainer/graph/passes.h"

namespace coxswain::train {
namespace {

// What a gradient of another value than zero would write into.
TEST(Padding, is_what_no_tensor_fills) {
  const auto backend = backend::make_onednn_backend({});
  const auto graph = graph::build_model(Model::kLenet, {1, 1, 28, 28}, 10, 0);
  const auto program = graph::compile(graph, 8, Precision::kFp32, graph::Mode::kTraining);
  const auto layout = backend->layout(program, backend::LayoutKind::kNative);
  std::vector<float> flat(static_cast<std::size_t>(layout.size()));
  std::int64_t elements = 0, inside = 0, padding = 0;
  for (const auto& segment : layout.segments) {
    if (segment.kind == tensor::SegmentKind::kControl) continue;
    elements += segment.elements();
    inside += segment.stored - segment.elements();
    const std::vector<float> ones(static_cast<std::size_t>(segment.elements()), 1.0F);
    backend->from_canonical(segment, ones,
                            std::span(flat).subspan(static_cast<std::size_t>(segment.offset),
                                                    static_cast<std::size_t>(segment.stored)));
  }
  for (const Range& range : padding_of(*backend, layout)) {
    padding += range.length;
    for (std::int64_t at = range.offset; at < range.end(); ++at)
      ASSERT_EQ(flat[static_cast<std::size_t>(at)], 0) << at;
  }
  EXPECT_EQ(padding, layout.control().offset - elements);
  EXPECT_GT(inside, 0) << "6 channels in blocks of 8 or 16";
  EXPECT_GT(padding, inside) << "ten biases";
}

}  // namespace
}  // namespace coxswain::train
