#include <cstdlib>
#include <span>

#include "trainer/contract/error.h"
#include "trainer/graph/passes.h"
#include "trainer/onnx/format.h"
#include "trainer/onnx/network.h"

// Any bytes are a model whose network has weights that fit, and is the same when it is written and
// read again; or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using namespace coxswain;
  try {
    const onnx::Model model = onnx::decode_model(std::as_bytes(std::span(input, size)), "input");
    const graph::Graph graph = onnx::translate(model).graph;
    if (onnx::translate(onnx::from_text(onnx::to_text(model), "text")).graph != graph) std::abort();
    const auto weights = onnx::weights_of(model);
    graph::compile(graph, 2, Precision::kFp32, graph::Mode::kTraining);
    const onnx::Model again = onnx::to_model(graph, weights);
    if (onnx::weights_of(again).size() < weights.size()) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) std::abort();
  }
  return 0;
}
