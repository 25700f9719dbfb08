#include <gtest/gtest.h>

#include "tests/support/test_flags.h"
#include "trainer/graph/models/models.h"
#include "trainer/graph/passes.h"

namespace coxswain::graph {
namespace {

Program compiled(Model model, Precision precision, Mode mode) {
  const ModelInfo& info = model_info(model);
  return compile(build_model(model, info.input, info.classes, 0), 4, precision, mode);
}

TEST(Program, has_the_golden_text) {
  test::expect_golden("graph/singa-cnn.training.txt",
                      to_text(compiled(Model::kSingaCnn, Precision::kFp32, Mode::kTraining)));
  test::expect_golden("graph/keras-cnn.training.bf16.txt",
                      to_text(compiled(Model::kKerasCnn, Precision::kBf16, Mode::kTraining)));
  test::expect_golden("graph/cifar-resnet8.training.txt",
                      to_text(compiled(Model::kCifarResnet8, Precision::kFp32, Mode::kTraining)));
  test::expect_golden("graph/cifar-resnet8.evaluation.txt",
                      to_text(compiled(Model::kCifarResnet8, Precision::kFp32, Mode::kEvaluation)));
}

}  // namespace
}  // namespace coxswain::graph
